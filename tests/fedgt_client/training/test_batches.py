"""Batches, and how large they may be."""

import pytest
import torch

from fedgt_client.model.inputs import NodeInputs
from fedgt_client.sampling import Samples
from fedgt_client.training.batches import BatchPlan, batches, whole_graph_bytes
from shared.config import Scalar
from tests.fedgt_client.graphs import settings

CPU = torch.device("cpu")
# A chain: node i attends to i + 1, the last to no node.
CHAIN = Samples(
    nodes=torch.tensor([[1, 0], [2, 1], [3, 2], [4, 3], [4, 4]]),
    mask=torch.tensor([[1, 0], [1, 0], [1, 0], [1, 0], [0, 0]]).bool(),
    log_weight=torch.tensor([[0.1, 0], [0.2, 0], [0.3, 0], [0.4, 0], [0, 0]]),
)


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
    plan = BatchPlan.fitting(nodes, settings(**changed), CPU)
    assert (plan.train_batch, plan.predict_batch) == expected


def test_mixed_precision_is_for_cuda() -> None:
    config = settings(mixed_precision=True)
    assert not BatchPlan.fitting(10, config, CPU).mixed_precision
    assert BatchPlan.fitting(10, config, torch.device("cuda")).mixed_precision


def test_batches_cover_all_targets() -> None:
    inputs = NodeInputs(torch.arange(5.0)[:, None], torch.zeros(5, 1))
    order = torch.tensor([4, 0, 3, 1, 2])
    parts = list(batches(inputs, CHAIN, order, size=2, layers=2))
    assert [part.targets.tolist() for part in parts] == [[4, 0], [3, 1], [2]]
    assert all(part.outputs is None for part in parts)
    assert isinstance(parts[0].inputs.features, torch.Tensor)
    assert parts[0].inputs.features.flatten().tolist() == [4, 0, 1, 2]
    (whole,) = batches(inputs, CHAIN, order, size=0, layers=2)
    assert whole.inputs is inputs
    assert whole.outputs is not None
    assert whole.outputs.tolist() == order.tolist()
    assert len(whole.blocks) == 2


def test_memory_grows_with_nodes_and_layers() -> None:
    one = whole_graph_bytes(1000, samples=16, width=128, layers=1)
    assert whole_graph_bytes(3000, samples=16, width=128, layers=2) == 6 * one
    # At least the keys and values that are gathered.
    assert one > 4 * 1000 * 16 * 2 * 128
