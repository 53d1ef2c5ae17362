"""The best round, by the metric that the run names."""

import math

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message

from fedgt_server.strategy import FedGTStrategy
from shared.wire import GLOBAL_NODES, Update
from tests.fedgt_server.grid import INITIAL, Node, ScriptedGrid, settings

pytestmark = pytest.mark.usefixtures("quick")

# Of three rounds: accuracy is best in the first, macro-F1 in the second, log loss in the third.
METRICS = {
    1: {"val_accuracy": 0.9, "val_macro_f1": 0.3, "val_log_loss": 2.0},
    2: {"val_accuracy": 0.8, "val_macro_f1": 0.7, "val_log_loss": 1.0},
    3: {"val_accuracy": 0.7, "val_macro_f1": 0.6, "val_log_loss": 0.5},
}


def best_rounds(select_by: str, metrics: dict[int, dict[str, float]]) -> list[int]:
    """Play all rounds; return the best after each of them."""
    strategy = FedGTStrategy(settings(select_by=select_by))
    grid = ScriptedGrid(Node("a"), Node("b"))
    strategy.introduce(grid)
    found = []
    for number, measured in metrics.items():
        messages = strategy.configure_train(number, ArrayRecord(), ConfigRecord(), grid)
        replies = [reply(message, measured) for message in messages]
        strategy.aggregate_train(number, replies)
        assert strategy.last_round is not None
        found.append(strategy.last_round.best_round)
    return found


def reply(message: Message, metrics: dict[str, float]) -> Message:
    arrays = {name: np.zeros_like(array) for name, array in INITIAL.items()}
    arrays[GLOBAL_NODES] = np.ones((2, 2, 4), np.float32)
    return Message(Update("any", arrays, metrics).to_records(), reply_to=message)


@pytest.mark.parametrize(
    ("select_by", "expected"),
    [("accuracy", [1, 1, 1]), ("macro-f1", [1, 2, 2]), ("log-loss", [1, 2, 3])],
)
def test_best_round(select_by: str, expected: list[int]) -> None:
    assert best_rounds(select_by, METRICS) == expected


def test_rounds_without_the_metric_are_never_better() -> None:
    missing = METRICS | {2: METRICS[2] | {"val_macro_f1": math.nan}}
    assert best_rounds("macro-f1", missing) == [1, 1, 3]
    assert best_rounds("roc-auc", METRICS) == [1, 2, 3]  # nobody measures it: the last
