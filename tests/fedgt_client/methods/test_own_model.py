"""An institution's own model: it decides by its validation nodes, and nothing of it leaves."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedgt_client.methods.fedgt import FedGT
from fedgt_client.methods.mixture import mixed
from fedgt_client.methods.own_model import OwnModel, epochs_of_a_round
from fedgt_client.training.task import TransformerTask
from shared.config import Scalar
from tests.fedgt_client.graphs import settings, two_groups


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path))


def institution(**changed: Scalar) -> FedGT:
    return FedGT(two_groups(), settings(**{"own_model": True, **changed}), "alba")


def trained() -> tuple[OwnModel, TransformerTask]:
    task = institution().task
    own = OwnModel(task, 2, settings())
    for _ in range(10):
        own.train()
    return own, task


def test_without_validation_or_training_nodes_the_federated_model_decides() -> None:
    none = np.zeros(40, np.bool_)
    for graph in (replace(two_groups(), train=none), replace(two_groups(), val=none)):
        method = FedGT(graph, settings(own_model=True), "alba")
        result = method.fit(method.initial_arrays(), 1)
        assert result.metrics["own_weight"] == 0.0


@pytest.mark.parametrize(
    ("rounds", "epochs"), [(1, 10), (15, 10), (20, 10), (30, 7), (100, 2), (200, 2)]
)
def test_few_rounds_train_it_longer_each(rounds: int, epochs: int) -> None:
    assert epochs_of_a_round(rounds) == epochs


def test_labels_under_dp_sgd_train_no_other_model() -> None:
    private: dict[str, Scalar] = {"label_privacy": "dp-sgd", "ldp": "off", "own_model": True}
    assert not any(name.startswith("own.") for name in institution(**private).state_dict())
    assert any(name.startswith("own.") for name in institution().state_dict())
    assert not any(name.startswith("own.") for name in institution(own_model=False).state_dict())


def test_it_reads_links() -> None:
    neighbours = institution().task.graph.neighbours
    assert len(neighbours)


def test_a_state_of_a_version_without_own_models_can_be_loaded() -> None:
    before = institution(own_model=False)
    before.fit(before.initial_arrays(), 1)
    method = institution()
    method.load_state_dict(before.state_dict())
    assert method.own_weight == 0.0


def test_mixed_probabilities_by_hand() -> None:
    federated, own = torch.tensor([[0.2, 0.8]]).log(), torch.tensor([[0.6, 0.4]]).log()
    for weight, expected in ((0.0, [0.2, 0.8]), (0.5, [0.4, 0.6]), (1.0, [0.6, 0.4])):
        assert mixed(federated, own, weight).exp()[0].tolist() == pytest.approx(expected)


def test_the_better_one_predicts_and_of_equals_the_federated_one() -> None:
    own, task = trained()
    val = task.graph.splits["val"]
    right = 9.0 * functional.one_hot(task.graph.labels[val], 2).float()
    assert own.choose(val, right) is right
    assert own.weight == 0.0
    assert own.mix(val, right) is right
    chosen = own.choose(val, -right)
    assert own.weight == 1.0
    assert torch.equal(chosen, own.mix(val, -right))
    assert (own.mix(val, -right).argmax(dim=1) == task.graph.labels[val]).float().mean() > 0.7


def test_predictions_are_what_was_measured_also_from_a_saved_model() -> None:
    method = institution()
    metrics = {}
    for number in range(1, 6):
        metrics = method.fit(method.initial_arrays(), number).metrics
    graph = two_groups()
    test = np.flatnonzero(graph.test)
    scores = method.predict(test)
    assert (scores.argmax(axis=1) == graph.labels[test]).mean() == pytest.approx(
        metrics["test_accuracy"]
    )
    # Of the best round, what only training needs is not kept.
    kept = {k: v for k, v in method.state_dict().items() if not k.startswith("adam.")}
    again = institution()
    again.load_state_dict(kept)
    assert again.own_weight == method.own_weight
    assert again.predict(test) == pytest.approx(scores)


def test_it_changes_nothing_that_is_uploaded_and_resumes_to_the_bit() -> None:
    fixed: dict[str, Scalar] = {"ldp": "off"}
    plain, beside = institution(own_model=False, **fixed), institution(**fixed)
    again = institution(**fixed)
    for number in range(1, 4):
        uploads = [one.fit(one.initial_arrays(), number).upload for one in (plain, beside)]
        assert uploads[0].keys() == uploads[1].keys()
        for name, array in uploads[0].items():
            assert array.tobytes() == uploads[1][name].tobytes()
        if number == 2:
            again.load_state_dict({k: np.array(v) for k, v in beside.state_dict().items()})
    again.fit(again.initial_arrays(), 3)
    found, expected = again.state_dict(), beside.state_dict()
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_it_stops_when_it_gets_no_better() -> None:
    own, _ = trained()
    for _ in range(100):
        own.train()
    before = {name: np.array(array) for name, array in own.state_dict().items()}
    own.train()
    for name, array in own.state_dict().items():
        assert array.tobytes() == before[name].tobytes()
