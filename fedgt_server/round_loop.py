"""The round loop: ask, wait for quorum or deadline, check, aggregate, checkpoint."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid

from fedgt_server.checkpoint import Checkpoints
from fedgt_server.exchange import Answers, Questions, exchange
from fedgt_server.journal import Journal
from fedgt_server.lock import run_lock
from fedgt_server.result import summarise
from fedgt_server.strategy import FedGTStrategy
from shared.errors import FedGTError
from shared.files import write_json
from shared.wire import Arrays, Update

logger = logging.getLogger(__name__)

_PATIENCE = 2.0  # seconds between looks for institutions that are not there yet

# The last words of a run that may be resumed when more institutions are there.
GIVING_UP = "giving up; the run can be resumed"

Observer = Callable[[dict[str, Any]], None]


class GaveUpError(FedGTError):
    """Too few institutions for too long; the last checkpoint is whole."""


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
        self._newcomers = Questions()

    def run(self) -> dict[str, Any]:
        """Play all rounds that are still to be played; the result, also as ``result.json``."""
        with run_lock(self._folder):
            try:
                return self._run()
            except Exception as error:
                # For whoever waits for this run in another process; a full disk says it elsewhere.
                with suppress(OSError):
                    self._journal.write("failed", reason=str(error) or type(error).__name__)
                raise

    def _run(self) -> dict[str, Any]:
        first = self._resume_or_begin()
        for number in range(first, self._config.rounds + 1):
            self._play(number)
        self._say_farewell()
        result = summarise(self._journal, self._config)
        write_json(self._folder / "result.json", result)
        self._journal.write("end", **{k: v for k, v in result.items() if k != "config"})
        return result

    def _resume_or_begin(self) -> int:
        """Bring the strategy to its starting point; the first round to play."""
        if self._config.resume and (checkpoint := self._checkpoints.newest()):
            self._strategy.restore(checkpoint)
            self._journal.write("resume", after_round=checkpoint.round_number)
            logger.info("resuming after round %d", checkpoint.round_number)
            self._gather(want_initial=False)
            return checkpoint.round_number + 1
        self._journal.start_anew()
        self._checkpoints.start_anew()
        self._journal.write("start", config=self._config.to_flower())
        if self._config.ldp != "off" and self._config.ldp_noise_seed >= 0:
            warning = "ldp-noise-seed is set: the noise can be drawn again, the run is not private"
            self._journal.write("warning", warning=warning)
            logger.warning(warning)
        self._strategy.summary()
        self._strategy.begin(self._gather(want_initial=True))
        return 1

    def _gather(self, *, want_initial: bool) -> Arrays:
        """Wait until enough institutions have introduced themselves, and all that are here."""
        members, config = self._strategy.members, self._config
        needed = max(config.start_institutions, config.min_institutions)
        patience, initial = Patience(config.give_up_after), Arrays()
        silent: set[int] = set()  # who was asked last and did not answer
        while True:
            strangers = members.strangers(self._grid)
            nodes = sorted(strangers, key=silent.__contains__)
            wanted = want_initial and not initial
            if wanted and silent >= set(strangers):
                # Who should have brought the starting point cannot: ask one who is in already.
                inside = sorted(members.online(self._grid), key=silent.__contains__)
                nodes = [*inside[:1], *nodes]
            answers = self._ask(members.questions(nodes, want_initial=wanted))
            initial = members.admit(self._grid, answers.replies, strict=True) or initial
            failed, silent = answers.raised, set(nodes) - answers.replies.keys()
            present = len(members.online(self._grid))
            if present == 0 and len(failed) >= needed:
                raise FedGTError(f"no institution can take part: {next(iter(failed.values()))}")
            if present < needed or (want_initial and not initial):
                patience.wait(f"{present} of {needed} institutions are here", failed)
            elif set(members.strangers(self._grid)) <= set(nodes):
                return initial

    def _play(self, number: int) -> None:
        started = time.monotonic()
        expected = self._strategy.members.names()
        updates = self._collect(number)
        facts = self._strategy.take(number, updates)
        facts |= {
            "missing": sorted(expected - updates.keys()),
            "seconds": time.monotonic() - started,
        }
        self._journal.write("round", round=number, **facts)
        if self._config.checkpoints:
            self._checkpoints.save(self._strategy.checkpoint(number))
        self._observe({"round": number, "rounds": self._config.rounds, **facts})
        logger.info(
            "round %d/%d: validation %.4f, test %.4f, %d institutions, %.1f s",
            number,
            self._config.rounds,
            facts["val_accuracy"],
            facts["test_accuracy"],
            len(updates),
            facts["seconds"],
        )

    def _collect(self, number: int) -> dict[str, tuple[Update, int]]:
        """Updates of at least a quorum, with their size."""
        members, config = self._strategy.members, self._config
        patience = Patience(config.give_up_after)
        updates: dict[str, tuple[Update, int]] = {}
        while True:
            nodes = members.online(self._grid)
            pending = {node: name for node, name in nodes.items() if name not in updates}
            self._ask_newcomers()
            answers = self._ask(self._strategy.instructions(number, pending))
            updates |= self._strategy.admissible(answers.replies.values())
            # They take part from the next round on.
            self._admit_newcomers()
            if len(updates) >= config.min_institutions:
                return updates
            state = f"{len(updates)} of {config.min_institutions} institutions answered"
            patience.wait(f"round {number}: {state}", answers.raised)

    def _ask_newcomers(self) -> None:
        """Have nodes that are new introduce themselves; no round waits for them."""
        members = self._strategy.members
        strangers = members.questions(members.strangers(self._grid), want_initial=False)
        self._newcomers.ask(self._grid, strangers, self._config.round_deadline)

    def _admit_newcomers(self) -> None:
        answers = self._newcomers.answers(self._grid)
        self._log_failures(answers)
        self._strategy.members.admit(self._grid, answers.replies, strict=False)

    def _ask(self, messages: Mapping[int, Message]) -> Answers:
        """Exchange messages; who did not answer, and why, is logged."""
        answers = exchange(self._grid, messages, self._config.round_deadline)
        self._log_failures(answers)
        return answers

    def _log_failures(self, answers: Answers) -> None:
        for node, reason in (answers.raised | answers.lost).items():
            name = self._strategy.members.name_of(node) or f"node {node}"
            logger.warning("%s did not answer: %s", name, reason)

    def _say_farewell(self) -> None:
        nodes = self._strategy.members.online(self._grid)
        farewells = self._strategy.farewells(self._config.rounds, nodes)
        exchange(self._grid, farewells, min(self._config.round_deadline, 60.0))


class Patience:
    """Waits in small steps, says so, and ends."""

    def __init__(self, seconds: float) -> None:
        self._limit = seconds
        self._started = time.monotonic()

    def wait(self, state: str, failures: Mapping[int, str]) -> None:
        """Wait a moment, or give up, with the first of the reasons that nodes gave."""
        if failures:
            state += f" ({next(iter(failures.values()))})"
        waited = time.monotonic() - self._started
        if waited >= self._limit:
            raise GaveUpError(f"{state}, after {waited:.0f} s: {GIVING_UP}")
        logger.info("waiting: %s", state)
        time.sleep(min(_PATIENCE, self._limit - waited))
