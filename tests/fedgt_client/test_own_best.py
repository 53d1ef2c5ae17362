"""Where metrics are not shared, an institution keeps the round that is best by its own nodes."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedgt_client.policy import Policy
from fedgt_client.predict.source import load_model
from fedgt_client.state import InMemoryState, StateStore
from tests.fedgt_client.trained_kits import make_kit, train_under


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path, "federation", "run", "alba")


def best_after(store: StateStore, values: list[float | None], *, smaller: bool = False) -> int:
    for number, value in enumerate(values, start=1):
        store.save(number, {"weight": np.full(2, number, np.float32)})
        store.log_metrics(number, {} if value is None else {"val_accuracy": value})
        store.keep_if_best(number, "val_accuracy", smaller=smaller)
    best = store.best()
    return best.round_number if best else 0


def test_without_validation_nodes_it_is_the_last(store: StateStore) -> None:
    assert best_after(store, [None, None, None]) == 3


def test_a_round_that_was_not_measured_is_not_better(store: StateStore) -> None:
    assert best_after(store, [0.5, None, 0.4]) == 1


def test_the_last_of_the_largest(store: StateStore) -> None:
    assert best_after(store, [0.5, 0.7, 0.6, 0.7, 0.1, 0.2]) == 4


def test_the_smallest_loss(store: StateStore) -> None:
    assert best_after(store, [0.5, 0.3, 0.6], smaller=True) == 2


def test_rounds_played_again_count_as_they_are_now(store: StateStore) -> None:
    best_after(store, [0.5, 0.9, 0.6])
    # The coordinator goes back to the second round, which is worse this time.
    assert best_after(store, [0.5, 0.4]) == 1


def test_in_memory_nothing_is_kept(tmp_path: Path) -> None:
    assert best_after(InMemoryState(tmp_path, "f", "r", "alba"), [0.5]) == 0
    assert list(tmp_path.iterdir()) == []


def logged(kit: Path, metric: str = "val_accuracy") -> list[float]:
    (source,) = kit.rglob("metrics.jsonl")
    return [json.loads(line)[metric] for line in source.read_text().splitlines()]


def test_predictions_are_of_the_institutions_own_best_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    kit = make_kit(tmp_path)
    none = Policy(share_metrics="none")
    with caplog.at_level("INFO"):
        # Whatever round the coordinator takes for the best.
        metrics = train_under(none, kit, 6, best=1, lr=0.05, ldp="global-nodes")
    assert all(name.startswith("epsilon") for found in metrics.values() for name in found)
    measured = logged(kit)
    best = len(measured) - measured[::-1].index(max(measured))
    model = load_model(kit)
    assert model.round_number == best
    assert f"round {best}, the best of its own validation" in model.describe()
    assert f"best model by its own validation of round {best}" in caplog.text


@pytest.mark.parametrize(
    ("select_by", "best_of"),
    [("macro-f1", max), ("log-loss", min), ("calibration-error", min)],
)
def test_the_best_round_is_that_of_the_smallest_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    select_by: str,
    best_of: Callable[[list[float]], float],
) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    kit = make_kit(tmp_path)
    train_under(Policy(share_metrics="none"), kit, 4, best=1, lr=0.05, select_by=select_by)
    measured = logged(kit, f"val_{select_by.replace('-', '_')}")
    assert len(set(measured)) > 1
    assert load_model(kit).round_number == 1 + measured.index(best_of(measured))


def test_where_metrics_are_shared_the_federation_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    kit = make_kit(tmp_path)
    train_under(Policy(), kit, 3, best=1, ldp="global-nodes")
    model = load_model(kit)
    assert model.round_number == 1
    assert "own validation" not in model.describe()
