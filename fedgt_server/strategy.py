"""FedGTStrategy: what each institution is sent in a round, and what becomes of the replies."""

import logging
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedgt_server.admission import update_error
from fedgt_server.checkpoint import BestRound, Checkpoint, CheckpointFacts
from fedgt_server.events import InstitutionRound, RoundEvent, mean_metric
from fedgt_server.exchange import error_line
from fedgt_server.introduction import Newcomers, gather
from fedgt_server.members import Members
from fedgt_server.methods import ServerMethod, server_method
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.wire import Arrays, Instruction, Update, count_bytes, selection_metric

logger = logging.getLogger(__name__)

# What the journal calls the model's parameters, all together.
WEIGHTS = "weights"


@dataclass
class _Accepted:
    """An update that can be averaged."""

    update: Update  # what the method needs of it until the round is complete
    size: int  # bytes of the whole message
    uploads: dict[str, int]  # bytes of its arrays


@dataclass
class _Round:
    """The round that is being played."""

    number: int = 0
    started: float = field(default_factory=time.monotonic)
    members: set[str] = field(default_factory=set)  # admitted when it began
    accepted: dict[str, _Accepted] = field(default_factory=dict)


class FedGTStrategy(Strategy):
    """A Flower strategy that sends each institution a message of its own.

    It can be used with Flower's ``start``, or within ``RoundLoop``, which adds a quorum that is
    waited for, checkpoints and a journal. A round is played by ``configure_train`` and
    ``aggregate_train``, which may be repeated for the same round until it is complete.

    Parameters
    ----------
    config : the settings of the run
    method : what is sent and how it is aggregated; by default the method that ``config`` names
    """

    def __init__(self, config: RunConfig, method: ServerMethod | None = None) -> None:
        self.config = config
        self.members = Members()
        self.best: BestRound | None = None
        self.last_round: RoundEvent | None = None  # the last that was completed
        self._method = method or server_method(config)
        self._has_model = False  # the method has its starting point
        self._newcomers = Newcomers()
        self._round = _Round()
        self._bytes_down: dict[str, int] = {}

    def summary(self) -> None:
        """Log the settings."""
        for key, value in self.config.to_flower().items():
            logger.info("  %s = %s", key, value)

    def introduce(self, grid: Grid, arrays: ArrayRecord | None = None) -> None:
        """Wait until enough institutions have introduced themselves, and take a starting point.

        That is ``arrays`` by the names of the model's parameters; without them an institution is
        asked for it.
        """
        want_initial = not arrays and not self._has_model
        initial = gather(grid, self.members, self.config, want_initial=want_initial)
        if not self._has_model:
            self._method.begin(self._checked(arrays) if arrays else initial)
            self._has_model = True

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return messages to all connected institutions without an accepted update this round.

        In the first round institutions introduce themselves first, unless they did so before;
        those that connect later take part from the round after on.
        """
        if not self.members.names():
            self.introduce(grid, arrays)
        self._newcomers.admit(grid, self.members, self.config.round_deadline)
        current = self._enter(server_round)
        # One at a time, as they are sent: together they may not fit into memory.
        return (
            self._message(
                node,
                name,
                Instruction(server_round, self._method.message(name), self._best_round(name)),
            )
            for node, name in self.members.online(grid).items()
            if name not in current.accepted
        )

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Aggregate the updates that can be averaged, once there are ``min-institutions``.

        Returns
        -------
        arrays : None, because there is no one model for all
        metrics : mean accuracies; None where the round is not complete and may be asked again
        """
        accepted = self._enter(server_round).accepted
        accepted.update(self._accept(replies))
        if len(accepted) < self.config.min_institutions:
            logger.warning("round %d is not complete: %s", server_round, self.progress())
            return None, None
        self.last_round = self._aggregate(self._round)
        means = {
            "val_accuracy": self.last_round.val_accuracy,
            "test_accuracy": self.last_round.test_accuracy,
        }
        return None, MetricRecord({k: v for k, v in means.items() if v is not None})

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Return no messages: institutions evaluate in their reply to the training message."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """Return nothing: see ``configure_evaluate``."""
        return None

    def finish_messages(self, last_round: int, grid: Grid) -> list[Message]:
        """Return messages that tell connected institutions the best round and that it is over."""
        return [
            self._message(
                node, name, Instruction(last_round + 1, {}, self._best_round(name), finish=True)
            )
            for node, name in self.members.online(grid).items()
        ]

    def progress(self) -> str:
        """Say how many institutions have answered in this round, of those needed."""
        accepted, needed = len(self._round.accepted), self.config.min_institutions
        return f"{accepted} of {needed} institutions answered"

    def checkpoint(self, round_number: int) -> Checkpoint:
        """Return all that is needed to continue after this round."""
        facts = CheckpointFacts(
            config=self.config.to_flower(), best=self.best, profile=self.members.profile
        )
        return Checkpoint(round_number, facts, self._method.state_dict())

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint."""
        self.best = checkpoint.facts.best
        self.members = Members(checkpoint.facts.profile)
        self._method.load_state_dict(checkpoint.arrays)
        self._has_model = True

    def _enter(self, number: int) -> _Round:
        """Return the state of a round, a new one where another round was played before."""
        if self._round.number != number:
            self._round = _Round(number, members=self.members.names())
        return self._round

    def _message(self, node: int, name: str, instruction: Instruction) -> Message:
        # Rounded here and nowhere else: a method keeps what it sends in full precision and adds
        # updates to that, so that even changes smaller than the rounding are not lost.
        records = instruction.to_records(self.config.wire_precision)
        self._bytes_down[name] = count_bytes(records)
        return Message(
            records,
            node,
            MessageType.TRAIN,
            group_id=str(instruction.round_number),
            ttl=self.config.round_deadline,
        )

    def _best_round(self, institution: str) -> int:
        """Return the best round so far, if ``institution`` took part in it, else 0.

        It is part of every message: whoever misses one learns it from the next.
        """
        best = self.best
        return best.number if best and institution in best.institutions else 0

    def _accept(self, replies: Iterable[Message]) -> Iterator[tuple[str, _Accepted]]:
        """Yield updates that can be averaged, by institution; log the others."""
        profile = self.members.profile
        expected = self._method.expected(profile) if profile else {}
        for reply in replies:
            if reply.has_error():
                # Not by name: an error reply need not come from the node that it is about.
                logger.warning("an institution did not answer: %s", error_line(reply.error))
                continue
            # The name it was admitted by, whatever the update says.
            name = self.members.name_of(reply.metadata.src_node_id)
            if name is None:
                logger.warning(
                    "an update of node %d is left out: it was not admitted",
                    reply.metadata.src_node_id,
                )
                continue
            try:
                update = Update.from_records(reply.content, expected)
                problem = update_error(update, expected)
            except FedGTError as error:
                problem = str(error)
            if problem:
                logger.warning("the update of %s is left out: %s", name, problem)
            else:
                uploads = upload_sizes(update.sizes, profile.parameters if profile else ())
                kept = self._method.receive(name, update)
                yield name, _Accepted(kept, count_bytes(reply.content), uploads)

    def _aggregate(self, current: _Round) -> RoundEvent:
        """Aggregate a round's updates and return what the journal says of it."""
        updates = {name: given.update for name, given in current.accepted.items()}
        report = self._method.aggregate(updates)
        for given in current.accepted.values():
            given.update = replace(given.update, arrays={})  # they are not needed any more
        for warning in report.warnings:
            logger.warning("round %d: %s", current.number, warning)
        institutions = {
            name: self._institution_round(name, given) for name, given in current.accepted.items()
        }
        validation = mean_metric(institutions, "val_accuracy")
        selection = mean_metric(institutions, selection_metric(self.config.select_by))
        best = self._update_best(current.number, selection, institutions)
        facts = {
            **report.facts,  # first: a method cannot overwrite what follows
            "round": current.number,
            "val_accuracy": validation,
            "test_accuracy": mean_metric(institutions, "test_accuracy"),
            "best_round": best.number,
            "institutions": institutions,
            "warnings": report.warnings,
            "missing": sorted(current.members - updates.keys()),
            "seconds": time.monotonic() - current.started,
        }
        return RoundEvent.model_validate(facts)

    def _institution_round(self, name: str, given: _Accepted) -> InstitutionRound:
        facts = {
            **given.update.metrics,
            "warnings": given.update.warnings,
            "bytes_up": given.size,
            "uploads": given.uploads,
            "bytes_down": self._bytes_down.get(name, 0),
        }
        return InstitutionRound.model_validate(facts)

    def _update_best(
        self, number: int, selection: float | None, institutions: Iterable[str]
    ) -> BestRound:
        """Return the best round so far, this one included, by the mean of ``select-by``.

        A round without validation is the best only while there has been no other.
        """
        best = self.best
        sign = -1.0 if self.config.select_by == "log-loss" else 1.0
        if (
            best is None
            or best.selection is None
            or (selection is not None and sign * selection > sign * best.selection)
        ):
            best = self.best = BestRound(number, selection, tuple(sorted(institutions)))
        return best

    def _checked(self, arrays: ArrayRecord) -> Arrays:
        """Return a starting point that was given as ``initial_arrays``.

        Raises
        ------
        FedGTError
            When it does not fit the model that institutions have.
        """
        initial = {name: np.asarray(array.numpy()) for name, array in arrays.items()}
        profile = self.members.profile
        if problem := update_error(Update("", initial, {}), profile.parameters if profile else {}):
            raise FedGTError(f"the initial arrays do not fit the model: {problem}")
        return initial


def upload_sizes(sizes: Mapping[str, int], parameters: Container[str]) -> dict[str, int]:
    """Return bytes of an update's arrays: the model's together as ``weights``, others by name."""
    shown: Counter[str] = Counter()
    for name, size in sizes.items():
        shown[WEIGHTS if name in parameters else name] += size
    return dict(shown)
