"""The round loop: waiting, checkpoints and a journal around the hooks of the strategy."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from flwr.app import ArrayRecord, ConfigRecord, Message
from flwr.serverapp import Grid

from fedgt_server.checkpoint import Checkpoints
from fedgt_server.events import (
    EndEvent,
    FailedEvent,
    ResumeEvent,
    RoundEvent,
    StartEvent,
    WarningEvent,
)
from fedgt_server.exchange import Replies, exchange, replies_as_they_come
from fedgt_server.journal import Journal
from fedgt_server.lock import run_lock
from fedgt_server.result import Result, summarise, write_result
from fedgt_server.strategy import FedGTStrategy
from fedgt_server.wait import GaveUpError, WaitLimit

logger = logging.getLogger(__name__)

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
        self._grid = grid
        self._strategy = strategy
        self._config = strategy.config
        self._folder = folder
        self._observe = observe
        self._journal = Journal(folder / "journal.jsonl")
        self._checkpoints = Checkpoints(folder / "checkpoints")

    def run(self) -> Result:
        """Play all rounds that are still to be played; write and return the result."""
        with run_lock(self._folder):
            try:
                return self._run()
            except Exception as error:
                # For a process that waits for this run; not where the disk is full.
                with suppress(OSError):
                    self._journal.write(
                        FailedEvent(
                            reason=str(error) or type(error).__name__,
                            status="gave-up" if isinstance(error, GaveUpError) else "failed",
                        )
                    )
                raise

    def _run(self) -> Result:
        first = self._resume_or_start()
        for number in range(first, self._config.rounds + 1):
            self._play(number)
        self._finish()
        result = summarise(self._journal, self._config)
        write_result(self._folder, result)
        self._journal.write(EndEvent(**result.model_dump(exclude={"config"})))
        return result

    def _resume_or_start(self) -> int:
        """Return the first round to play."""
        if self._config.resume and (checkpoint := self._checkpoints.newest()):
            self._strategy.restore(checkpoint)
            self._journal.write(ResumeEvent(after_round=checkpoint.round_number))
            logger.info("resuming after round %d", checkpoint.round_number)
            self._strategy.introduce(self._grid)
            return checkpoint.round_number + 1
        self._journal.start_new()
        self._checkpoints.delete_all()
        self._journal.write(StartEvent(config=self._config.to_flower()))
        if self._config.ldp != "off" and self._config.ldp_noise_seed >= 0:
            warning = "ldp-noise-seed is set: the noise can be drawn again, the run is not private"
            self._journal.write(WarningEvent(warning=warning))
            logger.warning(warning)
        self._strategy.summary()
        self._strategy.introduce(self._grid)
        return 1

    def _play(self, number: int) -> None:
        """Play a round, and keep it."""
        event = self._complete(number)
        self._journal.write(event)
        if self._config.checkpoints:
            self._checkpoints.save(self._strategy.checkpoint(number))
        self._observe(event)
        logger.info(
            "round %d/%d: validation %s, test %s, %d institutions, %.1f s",
            number,
            self._config.rounds,
            accuracy_text(event.val_accuracy),
            accuracy_text(event.test_accuracy),
            len(event.institutions),
            event.seconds,
        )

    def _complete(self, number: int) -> RoundEvent:
        """Ask institutions until enough of them have answered."""
        strategy, limit = self._strategy, WaitLimit(self._config.give_up_after)
        while True:
            messages = strategy.configure_train(number, ArrayRecord(), ConfigRecord(), self._grid)
            failures = Replies()
            _, metrics = strategy.aggregate_train(number, self._answers(messages, failures))
            if metrics is not None and strategy.last_round is not None:
                return strategy.last_round
            limit.wait(f"round {number}: {strategy.progress()}", failures.raised)

    def _answers(self, messages: Iterable[Message], failures: Replies) -> Iterator[Message]:
        """Yield answers to messages as they come; add the other replies to ``failures``."""
        for node, reply in replies_as_they_come(self._grid, messages, self._config.round_deadline):
            if reply.has_error():
                failures.add(node, reply)
            else:
                yield reply
        self._strategy.members.log_failures(failures)

    def _finish(self) -> None:
        messages = self._strategy.finish_messages(self._config.rounds, self._grid)
        exchange(self._grid, messages, min(self._config.round_deadline, _FINISH))


def accuracy_text(accuracy: float | None) -> str:
    """Return an accuracy as the log shows it."""
    return "not measured" if accuracy is None else f"{accuracy:.4f}"
