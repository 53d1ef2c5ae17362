"""FedGTStrategy: who gets which model, and what becomes of the answers."""

import logging
import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fedgt_server.admission import fault
from fedgt_server.checkpoint import Checkpoint
from fedgt_server.members import Members
from fedgt_server.methods import ServerMethod
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.wire import Arrays, Instruction, Profile, Update, count_bytes

logger = logging.getLogger(__name__)

# What the journal calls the model's parameters, all together.
WEIGHTS = "weights"


@dataclass(frozen=True)
class Best:
    """The round of the best mean validation accuracy so far."""

    round_number: int
    val_accuracy: float
    institutions: tuple[str, ...]  # who answered in it


class FedGTStrategy(Strategy):
    """A message of its own for each institution; the method says what is in it.

    The mathematics is in ``transport`` and ``aggregation``; the loop around is in ``round``.
    """

    def __init__(self, config: RunConfig, method: ServerMethod) -> None:
        self.config = config
        self.members = Members()
        self.best: Best | None = None
        self._method = method
        self._bytes_down: dict[str, int] = {}

    def summary(self) -> None:
        """Log the settings."""
        for key, value in self.config.to_flower().items():
            logger.info("  %s = %s", key, value)

    def begin(self, initial: Arrays) -> None:
        """Take the starting point of the first round."""
        self._method.begin(initial)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """The next round's messages to all admitted institutions that can be reached."""
        return self.instructions(server_round, self.members.online(grid)).values()

    def instructions(self, server_round: int, nodes: Mapping[int, str]) -> dict[int, Message]:
        """The next round's messages to the given nodes."""
        return {
            node: self._message(
                node,
                name,
                Instruction(server_round, self._method.message(name), self._best_round(name)),
            )
            for node, name in nodes.items()
        }

    def farewells(self, last_round: int, nodes: Mapping[int, str]) -> dict[int, Message]:
        """Tell the given nodes that the run is over."""
        return {
            node: self._message(
                node,
                name,
                Instruction(last_round + 1, {}, self._best_round(name), finish=True),
            )
            for node, name in nodes.items()
        }

    def admissible(self, replies: Iterable[Message]) -> dict[str, tuple[Update, int]]:
        """Updates fit to be averaged and their size, by institution; the others are logged."""
        profile = self.members.profile
        expected = self._method.expected(profile) if profile else {}
        admitted = {}
        for reply in replies:
            # As it was admitted, whatever the update calls itself.
            name = self.members.name_of(reply.metadata.src_node_id)
            if name is None:
                logger.warning(
                    "an update of node %d is left out: it was not admitted",
                    reply.metadata.src_node_id,
                )
                continue
            try:
                update = Update.from_records(reply.content)
                problem = fault(update, expected)
            except FedGTError as error:
                problem = str(error)
            if problem:
                logger.warning("the update of %s is left out: %s", name, problem)
            else:
                admitted[name] = (update, count_bytes(reply.content))
        return admitted

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Average what is fit to be averaged; there is no one model to return."""
        facts = self.take(server_round, self.admissible(replies))
        means = {key: facts[key] for key in ("val_accuracy", "test_accuracy")}
        return None, MetricRecord({k: v for k, v in means.items() if math.isfinite(v)})

    def take(self, server_round: int, updates: Mapping[str, tuple[Update, int]]) -> dict[str, Any]:
        """Aggregate a round's updates; what the journal says of it."""
        report = self._method.aggregate({name: update for name, (update, _) in updates.items()})
        for warning in report.warnings:
            logger.warning("round %d: %s", server_round, warning)
        parameters = self.members.profile.parameters if self.members.profile else {}
        institutions = {
            name: {
                **update.metrics,
                "warnings": update.warnings,
                "bytes_up": size,
                "uploads": uploads(update.arrays, parameters),
                "bytes_down": self._bytes_down.get(name, 0),
            }
            for name, (update, size) in updates.items()
        }
        validation = mean_of(institutions, "val_accuracy")
        best = self.best
        # A round without validation is the best only while there has been no other.
        if best is None or math.isnan(best.val_accuracy) or validation > best.val_accuracy:
            best = self.best = Best(server_round, validation, tuple(sorted(updates)))
        return {
            "val_accuracy": validation,
            "test_accuracy": mean_of(institutions, "test_accuracy"),
            "best_round": best.round_number,
            "institutions": institutions,
            "warnings": report.warnings,
            **report.facts,
        }

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """None: institutions evaluate in the same reply, which saves a phase a round."""
        return []

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """None: see ``configure_evaluate``."""
        return None

    def checkpoint(self, round_number: int) -> Checkpoint:
        """All that is needed to go on after this round."""
        best, profile = self.best, self.members.profile
        facts = {
            "config": self.config.to_flower(),
            "best": best and [best.round_number, best.val_accuracy, list(best.institutions)],
            "profile": profile and vars(profile),
        }
        return Checkpoint(round_number, facts, self._method.state_dict())

    def restore(self, checkpoint: Checkpoint) -> None:
        """The reverse of ``checkpoint``."""
        if best := checkpoint.facts["best"]:
            self.best = Best(best[0], best[1], tuple(best[2]))
        self.members = Members(Profile(**checkpoint.facts["profile"]))
        self._method.load_state_dict(checkpoint.arrays)

    def _message(self, node: int, name: str, instruction: Instruction) -> Message:
        records = instruction.to_records()
        self._bytes_down[name] = count_bytes(records)
        return Message(
            records,
            node,
            MessageType.TRAIN,
            group_id=str(instruction.round_number),
            ttl=self.config.round_deadline,
        )

    def _best_round(self, institution: str) -> int:
        """The best round so far, if ``institution`` took part in it, else 0.

        Told in every message: whoever misses one hears it in the next.
        """
        best = self.best
        return best.round_number if best and institution in best.institutions else 0


def uploads(arrays: Arrays, parameters: Container[str]) -> dict[str, int]:
    """Bytes of an update's arrays: the model's together as ``weights``, the others by name."""
    sizes: dict[str, int] = {}
    for name, array in arrays.items():
        shown = WEIGHTS if name in parameters else name
        sizes[shown] = sizes.get(shown, 0) + array.nbytes
    return sizes


def mean_of(institutions: Mapping[str, Mapping[str, Any]], key: str) -> float:
    """The plain mean over the institutions that measured it; NaN where none did."""
    values = [facts[key] for facts in institutions.values() if key in facts]
    return sum(values) / len(values) if values else math.nan
