"""An epoch and an evaluation."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fedgt_client.graph import Graph
from fedgt_client.model.global_nodes import GlobalNodes
from fedgt_client.model.transformer import GraphTransformer
from fedgt_client.preprocess.cache import prepare
from fedgt_client.training.loop import (
    BatchPlan,
    LocalData,
    predict,
    train_epoch,
)
from fedgt_client.training.optimiser import accuracy
from shared.config import Scalar
from tests.fedgt_client.graphs import settings, two_groups

CPU = torch.device("cpu")
WHOLE = BatchPlan(0, 0, "cpu", mixed_precision=False)


def data(graph: Graph, folder: Path) -> LocalData:
    return LocalData.of(graph, prepare(graph, settings(), folder), 4, CPU)


def accuracy_on(scores: torch.Tensor, local: LocalData, split: str) -> float:
    nodes = local.splits[split]
    return accuracy(scores[nodes], local.labels[nodes])


def model(dropout: float = 0.0) -> GraphTransformer:
    torch.manual_seed(0)
    return GraphTransformer(
        features=6,
        positional_dimensions=2,
        classes=2,
        width=16,
        layers=2,
        heads=2,
        dropout=dropout,
        ppr_bias=True,
    )


def adam(module: GraphTransformer) -> torch.optim.Adam:
    return torch.optim.Adam(module.parameters(), lr=0.02)


def nodes_for(module: GraphTransformer) -> GlobalNodes:
    return GlobalNodes.initial(sets=len(module.layers) + 1, count=3, width=16, momentum=0.9, seed=0)


@pytest.mark.parametrize(("batch", "sparse"), [(0, True), (0, False), (7, False)])
def test_learns_what_can_be_separated(batch: int, sparse: bool, tmp_path: Path) -> None:
    local, module = data(two_groups(sparse=sparse), tmp_path), model()
    optimiser, nodes = adam(module), nodes_for(module)
    steps = replace(WHOLE, train_batch=batch)
    losses = [train_epoch(module, optimiser, local, nodes, steps).loss for _ in range(20)]
    assert losses[0] > 0.5
    assert losses[-1] < 0.1
    scores = predict(module, local, nodes, WHOLE)
    assert accuracy_on(scores, local, "val") == 1.0
    assert accuracy_on(scores, local, "test") == 1.0


def test_first_loss_is_the_mean_cross_entropy(tmp_path: Path) -> None:
    """In batches and at once: the mean over nodes, whatever the size of the last batch."""
    local = data(two_groups(), tmp_path)
    for batch in (0, 5, 6):
        module = model()
        for parameter in module.head.parameters():
            torch.nn.init.zeros_(parameter)
        still = torch.optim.SGD(module.parameters(), lr=0.0)
        report = train_epoch(
            module, still, local, nodes_for(module), replace(WHOLE, train_batch=batch)
        )
        assert report.loss == pytest.approx(math.log(2))
        assert report.skipped == 0


def test_nothing_to_learn_from(tmp_path: Path) -> None:
    graph = two_groups()
    local, module = data(replace(graph, train=np.zeros(40, np.bool_)), tmp_path), model()
    nodes = nodes_for(module)
    before = [parameter.clone() for parameter in module.parameters()]
    for batch in (0, 8):
        report = train_epoch(module, adam(module), local, nodes, replace(WHOLE, train_batch=batch))
        assert math.isnan(report.loss)
        assert report.skipped == 0
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_global_nodes_follow_all_nodes_labelled_or_not(tmp_path: Path) -> None:
    graph = two_groups()
    only_one = np.zeros(40, np.bool_)
    only_one[0] = True
    local, module = data(replace(graph, train=only_one), tmp_path), model()
    nodes = nodes_for(module)
    before = nodes.centres.clone()
    train_epoch(module, adam(module), local, nodes, WHOLE)
    assert not torch.equal(nodes.centres, before)
    assert float(nodes.counts.sum(dim=1)[0]) == pytest.approx(0.9 * 3 + 0.1 * 40)
    assert not nodes.centres.requires_grad


def test_a_gradient_that_is_not_finite_is_left_out(tmp_path: Path) -> None:
    """Node 1 is isolated, so that it spoils its own batch only."""
    graph = two_groups()
    features = graph.dense_features().copy()
    features[1] = np.inf
    linked = graph.subgraph(np.array([n for n in range(40) if n != 1]))
    indptr = np.concatenate([linked.indptr[:2], linked.indptr[1:]])
    indices = linked.indices + (linked.indices >= 1)
    broken = replace(graph, indptr=indptr, indices=indices.astype(np.int32), features=features)
    local, module = data(broken, tmp_path), model()
    nodes, optimiser = nodes_for(module), adam(module)
    report = train_epoch(module, optimiser, local, nodes, replace(WHOLE, train_batch=1))
    assert report.skipped == 1
    # The mean is over the steps that were taken.
    assert 0.3 < report.loss < 2.0
    whole = train_epoch(module, optimiser, local, nodes, WHOLE)
    assert whole.skipped == 1
    assert math.isnan(whole.loss)
    for parameter in module.parameters():
        assert torch.isfinite(parameter).all()
    assert torch.isfinite(nodes.centres).all()
    scores = predict(module, local, nodes, WHOLE)
    assert torch.isfinite(scores).all(dim=1).sum() == 39


@pytest.mark.parametrize("batch", [1, 7, 40, 100])
def test_prediction_in_batches_is_that_of_the_whole(batch: int, tmp_path: Path) -> None:
    local, module = data(two_groups(), tmp_path), model(dropout=0.5)
    nodes = nodes_for(module)
    module.train()
    whole = predict(module, local, nodes, WHOLE)
    found = predict(module, local, nodes, replace(WHOLE, predict_batch=batch))
    assert torch.allclose(found, whole, atol=1e-5)
    assert not whole.requires_grad


def test_accuracy_by_hand(tmp_path: Path) -> None:
    graph = two_groups(8)  # classes 0, 1, 0, 1, …; pairs train, val, test, train
    local = data(graph, tmp_path)
    scores = torch.zeros(8, 2)
    scores[:, 0] = 1.0
    assert accuracy_on(scores, local, "val") == 0.5
    scores[3] = torch.tensor([0.0, 1.0])
    assert accuracy_on(scores, local, "val") == 1.0
    empty = data(replace(graph, test=np.zeros(8, np.bool_)), tmp_path)
    assert math.isnan(accuracy_on(scores, empty, "test"))


@pytest.mark.parametrize(
    ("changed", "nodes", "expected"),
    [
        ({}, 1000, (0, 0)),
        ({"batch-size": 64}, 1000, (64, 0)),
        # 1000 nodes · 2 layers · width 16 · 4 bytes · (4 · 4 + 20): 4.4 MiB.
        ({"memory-budget-mb": 5}, 1000, (0, 0)),
        ({"memory-budget-mb": 4}, 1000, (182, 182)),
        ({"memory-budget-mb": 4, "batch-size": 64}, 1000, (64, 182)),
        ({"memory-budget-mb": 1, "batch-size": 64}, 1000, (45, 45)),
        ({"memory-budget-mb": 1}, 100_000_000, (45, 45)),
    ],
)
def test_batches_where_the_whole_does_not_fit(
    changed: dict[str, Scalar], nodes: int, expected: tuple[int, int]
) -> None:
    steps = BatchPlan.fitting(nodes, settings(**changed), CPU)
    assert (steps.train_batch, steps.predict_batch) == expected


def test_mixed_precision_is_for_cuda() -> None:
    config = settings(mixed_precision=True)
    assert not BatchPlan.fitting(10, config, CPU).mixed_precision
    assert BatchPlan.fitting(10, config, torch.device("cuda")).mixed_precision
