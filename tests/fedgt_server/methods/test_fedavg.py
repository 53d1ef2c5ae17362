"""FedAvg at the coordinator, by hand."""

import numpy as np
import pytest

from fedgt_server.methods.fedavg import FedAvg
from shared.config import RunConfig
from shared.wire import KEPT_OWN, NUM_EXAMPLES, Arrays, Profile, Update

INITIAL: Arrays = {"weight": np.ones((1, 2), np.float32), "bias": np.zeros(1, np.float32)}


def update(name: str, change: float, examples: float | None) -> Update:
    arrays = {key: np.full_like(array, change) for key, array in INITIAL.items()}
    return Update(name, arrays, {} if examples is None else {NUM_EXAMPLES: examples})


def after(*updates: Update, robust: bool = False) -> Arrays:
    method = FedAvg(RunConfig.build({"robust": robust}))
    method.begin(INITIAL)
    method.aggregate({given.institution: given for given in updates})
    return method.message("anyone")


def test_weights_are_by_examples() -> None:
    """1 + (30 · 1 + 10 · 5 + 0 · 100) / 40 = 3."""
    found = after(update("a", 1.0, 30), update("b", 5.0, 10), update("c", 100.0, 0))
    assert found["weight"].tolist() == [[3.0, 3.0]]
    assert found["bias"].tolist() == [2.0]
    assert found["bias"].dtype == np.float32


@pytest.mark.parametrize("examples", [0.0, -3.0, None])
def test_without_any_examples_all_count_alike(examples: float | None) -> None:
    found = after(update("a", 1.0, examples), update("b", 3.0, examples))
    assert found["bias"].tolist() == [2.0]


def test_nobody_counts_for_more_than_three_times_the_others() -> None:
    """1e9 examples count as 3 · 10: (10 · 1 + 10 · 1 + 30 · 6) / 50 = 4."""
    updates = [update("a", 1.0, 10), update("b", 1.0, 10), update("c", 6.0, 1e9)]
    assert np.allclose(after(*updates, robust=True)["bias"], 4.0)
    assert np.allclose(after(*updates)["bias"], 6.0)


def test_after_a_complaint_the_mean_is_trimmed_for_a_while() -> None:
    method = FedAvg(RunConfig.build())
    method.begin(INITIAL)
    honest = [update(name, 1.0, 10) for name in "abcd"]
    hostile = [update(name, -9.0, 10) for name in "ef"]
    updates = {given.institution: given for given in (*honest, *hostile)}
    method.aggregate(updates)
    assert method.message("a")["bias"].tolist() == pytest.approx([(4 - 18) / 6])
    complaint = Update("a", honest[0].arrays, honest[0].metrics | {KEPT_OWN: 1.0})
    method.aggregate(updates | {"a": complaint})
    assert method.message("a")["bias"].tolist() == pytest.approx([(4 - 18) / 6 + 1.0])
    restored = FedAvg(RunConfig.build())
    restored.load_state_dict(method.state_dict())
    for number in range(12):
        before = method.message("a")["bias"][0]
        for each in (method, restored):
            each.aggregate(updates)
        moved = method.message("a")["bias"][0] - before
        assert moved == pytest.approx(1.0 if number < 9 else (4 - 18) / 6, abs=1e-4)
        assert restored.message("a")["bias"].tolist() == method.message("a")["bias"].tolist()


def test_order_of_answers_does_not_matter() -> None:
    updates = [update(name, value, 3) for name, value in (("a", 0.1), ("b", 1e-4), ("c", 7.0))]
    assert after(*updates)["weight"].tobytes() == after(*reversed(updates))["weight"].tobytes()


def test_restored() -> None:
    method, other = FedAvg(RunConfig.build()), FedAvg(RunConfig.build())
    method.begin(INITIAL)
    method.aggregate({"a": update("a", 0.5, 1)})
    other.load_state_dict(method.state_dict())
    assert other.message("b")["bias"].tolist() == method.message("b")["bias"].tolist() == [0.5]


def test_an_update_must_hold_every_parameter() -> None:
    shapes = {"weight": [1, 2], "bias": [1]}
    assert FedAvg(RunConfig.build()).expected(Profile("1", [], [], shapes)) == shapes
