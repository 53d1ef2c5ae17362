"""The metric that chooses the best round, and weights of classes in the loss."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedgt_client.methods.fedgt import FedGT
from fedgt_client.methods.gcn import LocalGCN
from fedgt_client.methods.trained import balanced_weights
from fedgt_client.metrics import score
from fedgt_client.training.evaluation import evaluate
from shared.errors import FedGTError
from tests.fedgt_client.graphs import settings, two_groups


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.mark.parametrize("key", ["select_by", "class_weights"])
def test_an_unknown_value(key: str) -> None:
    with pytest.raises(FedGTError, match=f"{key.replace('_', '-')} is 'best'"):
        settings(**{key: "best"})


def test_only_accuracies_are_measured_unless_the_run_asks_for_more() -> None:
    method = LocalGCN(two_groups(), settings(method="gcn"), "alba")
    measured = ("accuracy", "majority_share", "balanced_accuracy")
    expected = {f"{split}_{name}" for split in ("val", "test") for name in measured}
    assert evaluate(method.task).keys() == expected


@pytest.mark.parametrize(
    "select_by", ["balanced-accuracy", "average-precision", "log-loss", "calibration-error"]
)
def test_a_round_reports_the_metric_that_chooses(select_by: str) -> None:
    graph = two_groups()
    method = FedGT(graph, settings(select_by=select_by), "alba")
    metrics = method.fit(method.initial_arrays(), 1).metrics
    val = np.flatnonzero(graph.val)
    scores = torch.from_numpy(method.predict(val)).double()
    probabilities = torch.softmax(scores, dim=1).numpy()
    expected = score(select_by, probabilities, graph.labels[val])
    assert metrics[f"val_{select_by.replace('-', '_')}"] == pytest.approx(expected, rel=1e-6)


def test_without_validation_nodes_there_is_no_metric() -> None:
    graph = replace(two_groups(), val=np.zeros(40, np.bool_))
    method = LocalGCN(graph, settings(method="gcn"), "alba")
    assert math.isnan(evaluate(method.task, "macro-f1")["val_macro_f1"])


def unbalanced() -> tuple[np.ndarray, FedGT]:
    graph = two_groups(60)
    odd = np.flatnonzero(graph.train & (graph.labels == 1))
    train = graph.train.copy()
    train[odd[2:]] = False
    graph = replace(graph, train=train)
    counts = np.bincount(graph.labels[train])
    return counts, FedGT(graph, settings(class_weights="balanced", dropout=0.0), "alba")


def test_balanced_weights_by_hand() -> None:
    counts, method = unbalanced()
    assert counts.tolist() == [10, 2]
    weights = method.task.class_weights
    assert weights is not None
    assert weights.tolist() == pytest.approx([12 / 20, 12 / 4])
    assert FedGT(two_groups(), settings(), "alba").task.class_weights is None


def test_a_class_without_training_nodes_has_no_weight() -> None:
    graph = two_groups()
    one = replace(graph, train=graph.train & (graph.labels == 0))
    assert balanced_weights(one).tolist() == [1.0, 0.0]
    none = replace(graph, train=np.zeros(40, np.bool_))
    assert balanced_weights(none).tolist() == [0.0, 0.0]


def test_weighted_loss_counts_classes_alike() -> None:
    scores, labels = torch.randn(12, 2), torch.tensor([0] * 10 + [1] * 2)
    weights = torch.tensor([12 / 20, 12 / 4])
    each = functional.cross_entropy(scores, labels, reduction="none")
    expected = (each[:10].mean() + each[10:].mean()) / 2
    found = functional.cross_entropy(scores, labels, weight=weights)
    assert float(found) == pytest.approx(float(expected))


def test_training_uses_the_weights() -> None:
    (_, weighted), (_, plain) = unbalanced(), unbalanced()
    plain.task.class_weights = None
    losses = [one.fit(one.initial_arrays(), 1).metrics["train_loss"] for one in (weighted, plain)]
    assert losses[0] != pytest.approx(losses[1], abs=1e-4)
