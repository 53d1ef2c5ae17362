"""An epoch and an evaluation of the graph transformer."""

import math
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fedgt_client.graph import Graph
from fedgt_client.model.global_nodes import GlobalNodes
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.transformer import GraphTransformer
from fedgt_client.preprocess.cache import prepare
from fedgt_client.sampling import Sampler
from fedgt_client.training.adam import Adam
from fedgt_client.training.batches import Batch, BatchPlan, batches
from fedgt_client.training.evaluation import (
    accuracy,
    balanced_accuracy,
    evaluate,
    majority_share,
)
from fedgt_client.training.loop import train_epoch
from fedgt_client.training.task import TransformerTask
from tests.fedgt_client.graphs import settings, two_groups

CPU = torch.device("cpu")
WHOLE = BatchPlan(0, "cpu", mixed_precision=False)


def task_for(
    graph: Graph,
    folder: Path,
    *,
    train_batch: int = 0,
    dropout: float = 0.0,
) -> TransformerTask:
    torch.manual_seed(0)
    model = GraphTransformer(
        features=6,
        positional_dimensions=2,
        classes=2,
        width=16,
        layers=2,
        heads=2,
        dropout=dropout,
        ppr_bias=True,
    )
    prepared = prepare(graph, settings(), folder)
    return TransformerTask(
        model,
        GraphTensors.of(graph, CPU, prepared.encoding),
        Sampler(prepared.pool, 4, CPU),
        GlobalNodes.initial(sets=3, count=3, width=16, momentum=0.9, seed=0),
        replace(WHOLE, train_batch=train_batch),
    )


def adam(task: TransformerTask) -> Adam:
    return Adam(task.model.parameters(), lr=0.02)


@pytest.mark.parametrize(("batch", "sparse"), [(0, True), (0, False), (7, False)])
@pytest.mark.slow
def test_learns_separable_classes(batch: int, sparse: bool, tmp_path: Path) -> None:
    task = task_for(two_groups(sparse=sparse), tmp_path, train_batch=batch)
    optimiser = adam(task)
    losses = [train_epoch(task, optimiser).loss for _ in range(20)]
    assert losses[0] > 0.5
    assert losses[-1] < 0.1
    measured = evaluate(task)
    assert (measured["val_accuracy"], measured["test_accuracy"]) == (1.0, 1.0)


def test_first_loss_is_the_mean_cross_entropy(tmp_path: Path) -> None:
    """In batches and at once: the mean over nodes, whatever the size of the last batch."""
    for batch in (0, 5, 6):
        task = task_for(two_groups(), tmp_path, train_batch=batch)
        for parameter in task.model.head.parameters():
            torch.nn.init.zeros_(parameter)
        report = train_epoch(task, Adam(task.model.parameters(), lr=0.0))
        assert report.loss == pytest.approx(math.log(2))
        assert report.skipped == 0


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("batch", [0, 5])
def test_dropout_leaves_the_graph_as_it_is(batch: int, sparse: bool, tmp_path: Path) -> None:
    task = task_for(two_groups(sparse=sparse), tmp_path, train_batch=batch, dropout=0.5)
    before = task.graph.dense_features().clone()
    train_epoch(task, adam(task))
    assert torch.equal(task.graph.dense_features(), before)


def test_a_batch_is_gone_before_the_next_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of them may not fit into memory."""
    seen: list[weakref.ref[torch.Tensor]] = []

    def watched(*args: Any, **kwargs: Any) -> Iterator[Batch]:
        for batch in batches(*args, **kwargs):
            assert all(features() is None for features in seen)
            assert isinstance(batch.inputs.features, torch.Tensor)
            seen.append(weakref.ref(batch.inputs.features))
            yield batch
            del batch

    monkeypatch.setattr("fedgt_client.training.task.batches", watched)
    task = task_for(two_groups(), tmp_path, train_batch=3, dropout=0.5)
    train_epoch(task, adam(task))
    assert len(seen) > 2


def test_no_training_nodes(tmp_path: Path) -> None:
    graph = replace(two_groups(), train=np.zeros(40, np.bool_))
    for batch in (0, 8):
        task = task_for(graph, tmp_path, train_batch=batch)
        before = [parameter.clone() for parameter in task.model.parameters()]
        report = train_epoch(task, adam(task))
        assert math.isnan(report.loss)
        assert report.skipped == 0
        after = task.model.parameters()
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_global_nodes_follow_all_nodes_labelled_or_not(tmp_path: Path) -> None:
    only_one = np.zeros(40, np.bool_)
    only_one[0] = True
    task = task_for(replace(two_groups(), train=only_one), tmp_path)
    before = task.global_nodes.centres.clone()
    train_epoch(task, adam(task))
    nodes = task.global_nodes
    assert not torch.equal(nodes.centres, before)
    assert float(nodes.counts.sum(dim=1)[0]) == pytest.approx(0.9 * 3 + 0.1 * 40)
    assert not nodes.centres.requires_grad
    # Also after the last layer, which computes nodes without a loss for this alone.
    assert nodes.counts.sum(dim=1).tolist() == pytest.approx([0.9 * 3 + 0.1 * 40] * 3)


def test_nodes_without_a_loss_change_no_gradient(tmp_path: Path) -> None:
    gradients = []
    for others in (True, False):
        task = task_for(two_groups(), tmp_path)
        if not others:
            task._others = None
        torch.manual_seed(1)
        ((_, scores),) = task.training_passes()
        scores.sum().backward()
        gradients.append([p.grad for p in task.model.parameters() if p.grad is not None])
    for one, other in zip(*gradients, strict=True):
        assert torch.equal(one, other)


def test_prediction_leaves_the_global_nodes_alone(tmp_path: Path) -> None:
    task = task_for(two_groups(), tmp_path)
    before = task.global_nodes.centres.clone()
    task.predict(task.graph.all_nodes())
    assert torch.equal(task.global_nodes.centres, before)


class HostReads(TorchDispatchMode):
    """Counts what makes the host wait for a device: values read, and shapes that depend on them."""

    WAITING: ClassVar = {"_local_scalar_dense", "nonzero", "_unique2", "masked_select", "equal"}

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        is_mask = name == "index" and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if name in self.WAITING or is_mask:
            self.found.append(name)
        return func(*args, **(kwargs or {}))


def test_host_reads_are_counted() -> None:
    values = torch.arange(3.0)
    with HostReads() as reads:
        assert bool(values.sum() == 3)
        values[values > 1]
    assert reads.found == ["_local_scalar_dense", "index"]


def test_no_step_of_an_epoch_waits_for_the_device(tmp_path: Path) -> None:
    """Only the epoch's end reads, by ``tolist``, which is not counted on a CPU."""
    task = task_for(two_groups(), tmp_path, dropout=0.5)
    with HostReads() as reads:
        report = train_epoch(task, adam(task))
    assert report.loss > 0
    assert reads.found == []


def test_a_step_whose_gradient_is_not_finite_is_skipped(tmp_path: Path) -> None:
    """Node 1 is isolated, so that it affects its own batch only."""
    graph = two_groups()
    features = graph.dense_features().copy()
    features[1] = np.inf
    linked = graph.subgraph(np.array([n for n in range(40) if n != 1]))
    indptr = np.concatenate([linked.indptr[:2], linked.indptr[1:]])
    indices = linked.indices + (linked.indices >= 1)
    broken = replace(graph, indptr=indptr, indices=indices.astype(np.int32), features=features)
    task = task_for(broken, tmp_path, train_batch=1)
    optimiser = adam(task)
    report = train_epoch(task, optimiser)
    assert report.skipped == 1
    # The mean is over the steps that were taken.
    assert 0.3 < report.loss < 2.0
    task._plan = WHOLE
    whole = train_epoch(task, optimiser)
    assert whole.skipped == 1
    assert math.isnan(whole.loss)
    for parameter in task.model.parameters():
        assert torch.isfinite(parameter).all()
    assert torch.isfinite(task.global_nodes.centres).all()
    scores = task.predict(task.graph.all_nodes())
    assert torch.isfinite(scores).all(dim=1).sum() == 39


def test_prediction_is_without_dropout_and_gradient(tmp_path: Path) -> None:
    task = task_for(two_groups(), tmp_path, dropout=0.5)
    task.model.train()
    nodes = task.graph.all_nodes()
    found = task.predict(nodes)
    assert torch.equal(found, task.predict(nodes))
    assert not found.requires_grad


def test_prediction_of_some_nodes_in_any_order(tmp_path: Path) -> None:
    task = task_for(two_groups(), tmp_path)
    nodes = torch.tensor([7, 3, 30])
    assert torch.equal(task.predict(nodes), task.predict(task.graph.all_nodes())[nodes])


def test_accuracy_by_hand() -> None:
    scores = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    assert accuracy(scores, torch.tensor([0, 1, 1])) == pytest.approx(2 / 3)
    assert math.isnan(accuracy(scores[:0], torch.tensor([], dtype=torch.long)))


def test_each_split_is_measured_on_its_own_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = two_groups(8)  # classes 0, 1, 0, 1, …; pairs train, val, test, train
    task = task_for(graph, tmp_path)
    scores = torch.tensor([[1.0, 0.0]]).repeat(8, 1)
    scores[3] = torch.tensor([0.0, 1.0])
    monkeypatch.setattr(task, "predict", lambda nodes: scores[nodes])
    assert evaluate(task) == {
        "val_accuracy": 1.0,
        "val_majority_share": 0.5,
        "val_balanced_accuracy": 1.0,
        "test_accuracy": 0.5,
        "test_majority_share": 0.5,
        "test_balanced_accuracy": 0.5,
    }


def test_a_constant_answer_is_worth_no_more_than_the_largest_class() -> None:
    labels = torch.tensor([0, 0, 0, 2])  # of three classes
    constant = torch.tensor([[1.0, 0.0, 0.0]]).repeat(4, 1)
    assert accuracy(constant, labels) == majority_share(labels) == 0.75
    assert balanced_accuracy(constant, labels) == 0.5


def test_a_split_without_nodes_has_no_accuracy(tmp_path: Path) -> None:
    unset = np.zeros(40, np.bool_)
    no_test = evaluate(task_for(replace(two_groups(), test=unset), tmp_path))
    assert math.isnan(no_test["test_accuracy"])
    assert not math.isnan(no_test["val_accuracy"])
    neither = evaluate(task_for(replace(two_groups(), val=unset, test=unset), tmp_path))
    assert all(math.isnan(value) for value in neither.values())
