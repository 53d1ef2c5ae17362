"""What holds for every one of the paper's other systems."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedgt_client.graph import Graph
from fedgt_client.methods import METHODS
from shared.wire import KEPT_OWN
from tests.fedgt_client.graphs import two_groups, without_links
from tests.fedgt_client.methods.baselines import assert_same, federated, institution

BASELINES = sorted(METHODS.keys() - {"fedgt", "local"})
STEPS = {"fedsage": 10}  # in the first round, where it is not one
UNSET = np.zeros(40, np.bool_)
ODD: dict[str, tuple[Graph, str | None]] = {
    "no links": (without_links(two_groups()), None),
    "no training nodes": (replace(two_groups(), train=UNSET), "no labelled training nodes"),
    "nothing to measure": (replace(two_groups(), val=UNSET, test=UNSET), None),
    "one class": (
        replace(two_groups(), train=two_groups().train & (two_groups().labels == 0)),
        "training nodes of one class only",
    ),
    "one node": (two_groups(sparse=True).subgraph(np.arange(1)), "training nodes of one class"),
}


@pytest.mark.slow
def test_graphgps_alone_imports_pyg(tmp_path: Path) -> None:
    """Its import takes seconds, and its convolutions leave files among the temporary ones."""
    program = (
        "import sys\n"
        "from fedgt_client.methods import client_method\n"
        "from tests.fedgt_client.graphs import settings, two_groups\n"
        f"for name in {sorted(METHODS.keys() - {'graphgps'})}:\n"
        "    method = client_method(two_groups(), settings(method=name, own_model=True), 'alba')\n"
        "    method.fit(method.initial_arrays(), 1)\n"
        "assert not any(name.startswith('torch_geometric') for name in sys.modules)\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.slow
def test_learns(name: str) -> None:
    results = federated(institution(name, dropout=0.0, lr=0.02, rounds=30), 30)
    assert results[-1].metrics["train_loss"] < 0.7 * results[0].metrics["train_loss"]
    assert results[-1].metrics["val_accuracy"] > 0.9
    assert results[-1].metrics["test_accuracy"] > 0.9


EXCHANGING = sorted(METHODS.keys() - {"local", "gcn", "fedsage"})


@pytest.mark.parametrize("value", [float("nan"), 50.0])
@pytest.mark.parametrize("name", EXCHANGING)
def test_a_spoilt_model_is_not_taken_over(name: str, value: float) -> None:
    method = institution(name, dropout=0.0, lr=0.02, rounds=20, ldp="off")
    model = method.initial_arrays()
    for number in range(1, 6):
        change = method.fit(model, number)
        assert KEPT_OWN not in change.metrics
        model = {key: model[key] + change.upload[key] for key in model}
    spoilt = {key: np.full_like(array, value) for key, array in model.items()}
    result = method.fit(spoilt, 6)
    assert result.metrics[KEPT_OWN] == 1.0
    assert result.warnings == [
        "kept its own model: with the one it was sent, it is worse on its own validation nodes"
    ]
    # It has trained from its own: the change is small, and the model as good as before.
    assert all(np.abs(result.upload[key]).max() < 1.0 for key in model)
    assert result.metrics["val_accuracy"] >= change.metrics["val_accuracy"] - 0.1
    # Restored from disk it decides the same.
    resumed = institution(name, dropout=0.0, lr=0.02, rounds=20, ldp="off")
    resumed.load_state_dict({k: np.array(v) for k, v in method.state_dict().items()})
    one, other = method.fit(spoilt, 7), resumed.fit(spoilt, 7)
    assert one.metrics == other.metrics
    assert_same(other.upload, one.upload)


@pytest.mark.parametrize("name", EXCHANGING)
def test_without_robust_every_model_is_taken_over(name: str) -> None:
    method = institution(name, lr=0.02, robust=False, ldp="off")
    model = method.initial_arrays()
    method.fit(model, 1)
    spoilt = {key: np.full_like(array, 50.0) for key, array in model.items()}
    assert KEPT_OWN not in method.fit(spoilt, 2).metrics


@pytest.mark.parametrize("name", BASELINES)
def test_starts_alike_and_chance_is_the_institution_s(name: str) -> None:
    one, other = institution(name), institution(name, two_groups(30, seed=5), "bree")
    assert_same(one.initial_arrays(), other.initial_arrays())
    namesake = institution(name, two_groups(), "bree")
    first, second = (m.fit(m.initial_arrays(), 1) for m in (one, namesake))
    assert first.metrics["train_loss"] != second.metrics["train_loss"]


@pytest.mark.parametrize("batch", [0, 5])
@pytest.mark.parametrize("name", BASELINES)
def test_a_restored_institution_goes_on_to_the_byte(name: str, batch: int) -> None:
    method, resumed = (institution(name, batch_size=batch) for _ in range(2))
    sent = method.initial_arrays()
    method.fit(sent, 1)
    resumed.load_state_dict(method.state_dict())
    expected, found = (m.fit(sent, 2) for m in (method, resumed))
    assert_same(found.upload, expected.upload)
    assert_same(resumed.state_dict(), method.state_dict())
    assert found.metrics == expected.metrics


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("name", BASELINES)
def test_odd_institutions_take_part_with_a_warning(name: str, kind: str) -> None:
    graph, warning = ODD[kind]
    method = institution(name, graph)
    results = federated(method, 2)
    if warning:
        assert any(warning in text for text in results[0].warnings), results[0].warnings
    assert results[1].warnings == []
    for array in results[-1].upload.values():
        assert np.isfinite(array).all()
        assert array.dtype == np.float32
    if kind == "no training nodes":
        assert math.isnan(results[0].metrics["train_loss"])
        moved = results[0].upload.keys() & method.initial_arrays().keys()
        assert not any(results[0].upload[name].any() for name in moved)


@pytest.mark.parametrize("name", BASELINES)
def test_a_value_that_is_not_finite(name: str) -> None:
    features = two_groups().dense_features().copy()
    features[:, 0] = np.nan
    method = institution(name, replace(two_groups(), features=features))
    result = method.fit(method.initial_arrays(), 1)
    steps = STEPS.get(name, 1)
    assert result.metrics["skipped_steps"] == steps
    assert f"{steps} training steps skipped: non-finite gradient" in result.warnings
    for name, array in result.upload.items():
        assert np.isfinite(array).all(), name


@pytest.mark.parametrize("name", BASELINES)
def test_nothing_of_a_node_leaves(name: str) -> None:
    graph = two_groups(44)
    method = institution(name, graph)
    result = method.fit(method.initial_arrays(), 1)
    arcs = len(graph.indices)
    for key, array in result.upload.items():
        assert not {44, arcs, arcs // 2} & set(array.shape), key
    secrets = set(graph.dense_features().ravel().tolist())
    released = {value for array in result.upload.values() for value in array.ravel().tolist()}
    assert not released & secrets - {0.0}
