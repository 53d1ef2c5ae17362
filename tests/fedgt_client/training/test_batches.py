"""Batches, and how large they may be."""

import numpy as np
import pytest
import torch

from fedgt_client.graph import Graph
from fedgt_client.model.inputs import NodeInputs
from fedgt_client.sampling import Samples
from fedgt_client.training.batches import BatchPlan, batches, step_bytes
from shared.config import Scalar
from tests.fedgt_client.graphs import settings

CPU = torch.device("cpu")
# A chain: node i attends to i + 1, the last to no node.
CHAIN = Samples(
    nodes=torch.tensor([[1, 0], [2, 1], [3, 2], [4, 3], [4, 4]]),
    mask=torch.tensor([[1, 0], [1, 0], [1, 0], [1, 0], [0, 0]]).bool(),
    log_weight=torch.tensor([[0.1, 0], [0.2, 0], [0.3, 0], [0.4, 0], [0, 0]]),
)


def chain(nodes: torch.Tensor) -> Samples:
    return Samples(CHAIN.nodes[nodes], CHAIN.mask[nodes], CHAIN.log_weight[nodes])


def of_size(nodes: int) -> Graph:
    """Make a graph without links, of which every fifth node has a training label."""
    train = np.arange(nodes) % 5 == 0
    return Graph(
        indptr=np.zeros(nodes + 1, np.int64),
        indices=np.empty(0, np.int32),
        features=np.zeros((nodes, 6), np.float32),
        labels=np.zeros(nodes, np.int64),
        train=train,
        val=~train,
        test=np.zeros(nodes, np.bool_),
        feature_names=tuple("abcdef"),
        class_names=("x", "y"),
    )


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, 0),
        ({"batch-size": 64}, 64),
        # A step of all nodes needs 2.8 MiB, of 100 training nodes 1.6, of 40 0.94, of 20 0.47,
        # beside the 0.14 that lie in memory and 15.5 % for libraries.
        ({"memory-budget-mb": 4}, 0),
        ({"memory-budget-mb": 3}, 100),
        ({"memory-budget-mb": 2, "batch-size": 40}, 40),
        ({"memory-budget-mb": 1, "batch-size": 40}, 20),
    ],
)
def test_batches_where_the_whole_does_not_fit(changed: dict[str, Scalar], expected: int) -> None:
    assert BatchPlan.fitting(of_size(1000), settings(**changed), CPU).train_batch == expected


def test_a_graph_that_does_not_fit_at_all_is_tried_node_by_node() -> None:
    config = settings(**{"memory-budget-mb": 1})
    assert BatchPlan.fitting(of_size(100_000), config, CPU).train_batch == 1


def test_mixed_precision_is_for_cuda() -> None:
    config = settings(mixed_precision=True)
    assert not BatchPlan.fitting(of_size(10), config, CPU).mixed_precision
    assert BatchPlan.fitting(of_size(10), config, torch.device("cuda")).mixed_precision


def test_batches_cover_all_targets() -> None:
    inputs = NodeInputs(torch.arange(5.0)[:, None], torch.zeros(5, 1))
    order = torch.tensor([4, 0, 3, 1, 2])
    parts = list(batches(inputs, chain, order, size=2, layers=2))
    assert [part.targets.tolist() for part in parts] == [[4, 0], [3, 1], [2]]
    assert isinstance(parts[0].inputs.features, torch.Tensor)
    assert parts[0].inputs.features.flatten().tolist() == [4, 0, 1, 2]


def test_the_whole_computes_its_last_layer_for_the_targets_alone() -> None:
    inputs = NodeInputs(torch.arange(5.0)[:, None], torch.zeros(5, 1))
    targets = torch.tensor([4, 0])
    (whole,) = batches(inputs, chain, targets, size=0, layers=3)
    assert whole.inputs is inputs
    assert [block.positions.tolist() for block in whole.blocks] == [[*range(5)]] * 2 + [[4, 0]]
    assert whole.blocks[-1].samples.tolist() == [[4, 4], [1, 0]]


def test_memory_of_a_step_grows_with_its_nodes() -> None:
    graph, config = of_size(1000), settings()
    sizes = [step_bytes(size, 200, graph, config) for size in (1, 10, 100)]
    assert sizes[1] == 10 * sizes[0]
    # Neighbourhoods of many nodes overlap: together they need no more than all nodes.
    assert sizes[1] < sizes[2] < 10 * sizes[1]
    assert step_bytes(0, 200, of_size(3000), config) > 2 * step_bytes(0, 200, graph, config)
