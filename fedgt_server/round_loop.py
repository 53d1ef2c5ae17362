"""The round loop: waiting, checkpoints and a journal around the hooks of the strategy."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid

from fedgt_server.checked_grid import CheckedGrid
from fedgt_server.checkpoint import Checkpoints
from fedgt_server.earlier_run import JOURNAL, check_name_is_free, set_aside
from fedgt_server.events import (
    EndEvent,
    FailedEvent,
    ResumeEvent,
    RoundEvent,
    StartEvent,
    WarningEvent,
    mean_metric,
)
from fedgt_server.exchange import Replies, exchange, replies_as_they_come
from fedgt_server.journal import Journal
from fedgt_server.lock import is_locked, run_lock
from fedgt_server.result import Result, summarise, write_result
from fedgt_server.strategy import FedGTStrategy
from fedgt_server.wait import AwaitedLog, GaveUpError, Patience, WaitLimit
from shared.errors import FedGTError

logger = logging.getLogger(__name__)

STOPPED = "stopped by the operator"
_FINISH = 60.0  # seconds at most to wait for answers to the last message

Observer = Callable[[RoundEvent], None]


class RoundLoop:
    """One run over a grid, with its results in a folder."""

    def __init__(
        self,
        grid: Grid,
        strategy: FedGTStrategy,
        folder: Path,
        observe: Observer = lambda _: None,
    ) -> None:
        self._grid = CheckedGrid(grid)
        self._strategy = strategy
        self._config = strategy.config
        self._folder = folder
        self._observe = observe
        self._journal = Journal(folder / JOURNAL)
        self._checkpoints = Checkpoints(folder / "checkpoints")
        self._patience = Patience(self._config.round_deadline)
        self._is_in_place: Callable[[], bool] = lambda: True

    def run(self) -> Result:
        """Play all rounds that are still to be played; write and return the result."""
        if not self._config.resume and not is_locked(self._folder):
            if self._config.replace:
                set_aside(self._folder)
            check_name_is_free(self._folder)
        with run_lock(self._folder) as is_in_place:
            self._is_in_place = is_in_place
            try:
                return self._run()
            except BaseException as error:
                if not is_in_place():
                    # Written anew, it would be half a run in the place of a whole one.
                    raise self._moved() if isinstance(error, OSError) else error from None
                said = in_words(error)
                # For a process that waits for this run; not where the disk is full.
                with suppress(OSError):
                    self._journal.write(last_word(said))
                if said is error:
                    raise
                raise said from None

    def _run(self) -> Result:
        first = self._resume_or_start()
        for number in range(first, self._config.rounds + 1):
            self._play(number)
        self._finish()
        result = summarise(self._journal, self._config)
        write_result(self._folder, result)
        for warning in result.warnings:
            logger.warning("%s", warning)
        self._journal.write(EndEvent(**result.model_dump(exclude={"config"})))
        return result

    def _resume_or_start(self) -> int:
        """Return the first round to play."""
        if self._config.resume and (checkpoint := self._checkpoints.newest()):
            self._strategy.restore(checkpoint)
            self._journal.write(ResumeEvent(after_round=checkpoint.round_number))
            logger.info("resuming after round %d", checkpoint.round_number)
            self._introduce()
            return checkpoint.round_number + 1
        self._journal.start_new()
        self._checkpoints.delete_all()
        token = self._strategy.run_token
        self._journal.write(StartEvent(config=self._config.to_flower(), run_token=token))
        if self._config.ldp != "off" and self._config.ldp_noise_seed >= 0:
            warning = "ldp-noise-seed is set: the noise can be drawn again, the run is not private"
            self._journal.write(WarningEvent(warning=warning))
            logger.warning(warning)
        self._strategy.summary()
        self._introduce()
        return 1

    def _introduce(self) -> None:
        try:
            self._strategy.introduce(self._grid)
        finally:
            self._write_notices()

    def _write_notices(self) -> None:
        for line in self._strategy.take_notices():
            self._journal.write(WarningEvent(warning=line))

    def _play(self, number: int) -> None:
        """Play a round, and keep it."""
        event = self._complete(number)
        if not self._is_in_place():
            raise self._moved()
        self._write_notices()
        self._journal.write(event)
        if self._config.checkpoints:
            self._checkpoints.save(self._strategy.checkpoint(number))
        self._observe(event)
        logger.info(
            "round %d/%d: validation %s, test %s%s, %d institutions, %.1f s",
            number,
            self._config.rounds,
            accuracy_text(event.val_accuracy),
            accuracy_text(event.test_accuracy),
            worth_text(
                mean_metric(event.institutions, "test_majority_share"),
                mean_metric(event.institutions, "test_balanced_accuracy"),
            ),
            len(event.institutions),
            event.seconds,
        )

    def _moved(self) -> FedGTError:
        return FedGTError(
            f"the folder of the run, {self._folder}, was moved or deleted during the run: put it "
            "back, then ./resume.sh"
        )

    def _complete(self, number: int) -> RoundEvent:
        """Ask institutions until enough of them have answered."""
        strategy, limit = self._strategy, WaitLimit(self._config.give_up_after)
        # Asked again, they have all the time: the round cannot end without them.
        seconds: Callable[[str], float] = self._patience.seconds
        while True:
            messages = strategy.configure_train(number, ArrayRecord(), ConfigRecord(), self._grid)
            failures = Replies()
            answers = self._answers(number, messages, failures, seconds)
            _, metrics = strategy.aggregate_train(number, answers)
            if metrics is not None and strategy.last_round is not None:
                return strategy.last_round
            limit.wait(f"round {number}: {strategy.progress()}", failures.raised)
            seconds = self._full_time

    def _full_time(self, _: str) -> float:
        return self._config.round_deadline

    def _answers(
        self,
        number: int,
        messages: Iterable[Message],
        failures: Replies,
        seconds: Callable[[str], float],
    ) -> Iterator[Message]:
        """Yield answers to messages as they come; add the other replies to ``failures``."""
        asked: set[str] = set()

        def sent() -> Iterator[Message]:
            for message in messages:
                asked.add(self._name(message.metadata.dst_node_id))
                yield message

        started, awaited = time.monotonic(), AwaitedLog(f"round {number}", self._name)
        for node, reply in replies_as_they_come(
            self._grid, sent(), lambda node: seconds(self._name(node)), awaited.watch
        ):
            asked.discard(self._name(node))
            if reply.has_error():
                failures.add(node, reply)
            else:
                self._patience.answered(self._name(node), time.monotonic() - started)
                yield reply
        for name in asked:
            self._patience.missed(name)
        self._strategy.note_failures(failures)
        self._strategy.note_silent(asked, time.monotonic() - started)

    def _name(self, node: int) -> str:
        return self._strategy.members.name_of(node) or f"node {node}"

    def _finish(self) -> None:
        messages = self._strategy.finish_messages(self._config.rounds, self._grid)
        exchange(self._grid, messages, min(self._config.round_deadline, _FINISH))


def in_words(error: BaseException) -> BaseException:
    """Return what an operator can read and correct in place of an error of this machine's disk."""
    if not isinstance(error, OSError) or isinstance(error, ConnectionError) or not error.strerror:
        return error
    what = error.filename or "a file"
    return FedGTError(
        f"the coordinator cannot use {what}: {error.strerror}; make room ('fedgt clean') or "
        "correct the rights, then ./resume.sh"
    )


def last_word(error: BaseException) -> FailedEvent:
    """Return what the journal says at the end of a run that an exception has ended."""
    if isinstance(error, KeyboardInterrupt | SystemExit):  # Flower's way to stop a run
        return FailedEvent(reason=STOPPED, status="stopped")
    return FailedEvent(
        reason=str(error) or type(error).__name__,
        status="gave-up" if isinstance(error, GaveUpError) else "failed",
    )


def accuracy_text(accuracy: float | None) -> str:
    """Return an accuracy as the log shows it."""
    return "not known" if accuracy is None else f"{accuracy:.4f}"


def worth_text(majority_share: float | None, balanced: float | None) -> str:
    """Return what stands beside an accuracy; nothing where institutions do not share it."""
    parts = {"largest class": majority_share, "balanced": balanced}
    known = [f"{name} {value:.4f}" for name, value in parts.items() if value is not None]
    return f" ({', '.join(known)})" if known else ""
