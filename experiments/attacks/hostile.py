"""A federation in one process in which some institutions lie."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from flwr.app import Context, Message, MessageType

from deploy.engines.in_process_grid import InProcessGrid
from deploy.settings import resolve_settings
from fedgt_client.app import app, clients
from fedgt_client.node import NodeConfig
from fedgt_server.methods import ServerMethod
from fedgt_server.round_loop import RoundLoop
from fedgt_server.strategy import FedGTStrategy
from shared.config import RunConfig, Scalar
from shared.wire import COMMON, GLOBAL_NODES, Arrays, Instruction, Update

Accuracies = dict[int, float]  # by node


@dataclass
class Seen:
    """What attackers who work together can know: all updates, and what each has sent before."""

    honest: dict[int, Update] = field(default_factory=dict)  # the latest of each other node
    sent: dict[int, Update] = field(default_factory=dict)  # the latest of each attacker
    rounds: dict[int, int] = field(default_factory=dict)  # by attacker: played so far


# An attacker's honest update, what it was asked, what is seen, its node: what it sends instead.
Attack = Callable[[Update, Instruction, Seen, int], Update]


def parameters(update: Update) -> Arrays:
    """Return the changes of the model's parameters, and the gradients of a common model."""
    return {name: array for name, array in update.arrays.items() if name != GLOBAL_NODES}


def parts(update: Update) -> list[Arrays]:
    """Return the changes and the gradients apart: their lengths have nothing to do with another."""
    found = parameters(update)
    gradients = {name: array for name, array in found.items() if name.startswith(COMMON)}
    changes = {name: array for name, array in found.items() if name not in gradients}
    return [part for part in (changes, gradients) if part]


def changed(
    update: Update, arrays: Arrays | None = None, metrics: dict[str, float] | None = None
) -> Update:
    """Return an update with other arrays or metrics."""
    return replace(
        update, arrays=update.arrays | (arrays or {}), metrics=update.metrics | (metrics or {})
    )


class HostileApp:
    """The institutions' own app; replies of attackers are altered on their way out."""

    def __init__(self, attackers: Collection[int], attack: Attack | None) -> None:
        self._attackers, self._attack = attackers, attack
        self._seen = Seen()
        self.test: dict[int, Accuracies] = {}  # what each measured itself, by round

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer as the app does, or as an attacker."""
        reply = app(message, context)
        if message.metadata.message_type != MessageType.TRAIN or reply.has_error():
            return reply
        instruction = Instruction.from_records(message.content)
        if instruction.finish:
            return reply
        node = message.metadata.dst_node_id
        update = Update.from_records(reply.content)
        measured = update.metrics.get("test_accuracy", float("nan"))
        self.test.setdefault(instruction.round_number, {})[node] = measured
        if node not in self._attackers or self._attack is None:
            self._seen.honest[node] = update
            return reply
        sent = self._attack(update, instruction, self._seen, node)
        self._seen.sent[node] = sent
        return Message(sent.to_records(), reply_to=message)


@dataclass(frozen=True)
class Outcome:
    """What became of the honest institutions: mean test accuracies, in per cent."""

    last: float  # in the last round
    kept: float  # in the round that the coordinator called the best
    kept_round: int
    rounds: int  # that were played
    error: str  # that ended the run early; empty: none


def play(
    folder: Path,
    values: dict[str, Scalar],
    *,
    institutions: int = 6,
    attackers: Collection[int] = (),
    attack: Attack | None = None,
    outsiders: Collection[int] = (),
    server: Callable[[RunConfig], ServerMethod] | None = None,
) -> Outcome:
    """Run a federation; nodes count from 1.

    Parameters
    ----------
    folder : of the results, which must not exist
    outsiders : nodes that do not count, so that rows with other numbers of attackers compare
    server : another server half than the method's own
    """
    config = resolve_settings(
        {
            "min-institutions": 2,
            "start-institutions": institutions,
            "give-up-after": 3.0,
            "results-dir": str(folder.parent),
            "run-name": folder.name,
            "state-dir": str(folder / "institutions"),
            "checkpoints": False,
            **values,
        }
    )
    hostile = HostileApp(attackers, attack)
    nodes = [
        NodeConfig(partition_id=index, num_partitions=institutions).to_flower()
        | {"worker": False, "keep-state": False}
        for index in range(institutions)
    ]
    clients.clear()
    grid = InProcessGrid(hostile, nodes, config.to_flower())  # type: ignore[arg-type]
    strategy = FedGTStrategy(config, server(config) if server else None)
    error = ""
    try:
        RoundLoop(grid, strategy, folder).run()
    except Exception as failure:  # a run that an attack ends is a row, too
        error = f"{type(failure).__name__}: {failure}"
    kept = strategy.best.number if strategy.best else 0
    out = {*attackers, *outsiders}
    last = max(hostile.test, default=0)
    return Outcome(
        _mean(hostile.test.get(last, {}), out),
        _mean(hostile.test.get(kept, {}), out),
        kept,
        last,
        error,
    )


def _mean(measured: Accuracies, out: Collection[int]) -> float:
    found = [accuracy for node, accuracy in measured.items() if node not in out]
    return 100.0 * float(np.mean(found)) if found else float("nan")
