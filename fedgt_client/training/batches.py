"""Batches of the graph transformer: the whole subgraph at once, or as much as memory allows."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from scipy.sparse import csr_array
from torch import Tensor

from fedgt_client.graph import Graph
from fedgt_client.model.blocks import AttentionBlock, attention_blocks
from fedgt_client.model.inputs import NodeInputs
from fedgt_client.preprocess.cache import POOL_FACTOR
from fedgt_client.sampling import Samples
from shared.config import RunConfig

# Of the memory budget: libraries take 340 MB, and an allocator keeps some of what it freed.
_FOR_DATA = 0.845


@dataclass(frozen=True)
class BatchPlan:
    """How much a training step computes at once, and in which precision."""

    train_batch: int  # training nodes in a step; 0: the whole subgraph
    device_type: str
    mixed_precision: bool

    @classmethod
    def fitting(cls, graph: Graph, config: RunConfig, device: torch.device) -> "BatchPlan":
        """Plan as configured, in smaller batches if a step would exceed the memory budget."""
        train = int(graph.train.sum())
        free = int(_FOR_DATA * config.memory_budget_mb * 2**20) - resident_bytes(graph, config)
        size = config.batch_size
        if step_bytes(size, train, graph, config) > free:
            size = min(size or train, train)
            while size > 1 and step_bytes(size, train, graph, config) > free:
                size = (size + 1) // 2
            size = max(size, 1)
        mixed = config.mixed_precision and device.type == "cuda"
        return cls(size, device.type, mixed)

    def precision(self) -> AbstractContextManager[None]:
        """Return the autocast context: bfloat16 if mixed precision is on."""
        return torch.autocast(self.device_type, torch.bfloat16, enabled=self.mixed_precision)


@dataclass(frozen=True)
class Batch:
    """The input of a forward pass, whose outputs are those of ``targets``."""

    inputs: NodeInputs
    blocks: list[AttentionBlock]
    targets: Tensor  # shape: (t,), node ids that the pass is for
    others: AttentionBlock | None = None  # further nodes that the last layer computes


def batches(
    inputs: NodeInputs,
    draw: Callable[[Tensor], Samples],
    nodes: Tensor,
    *,
    size: int,
    layers: int,
    others: Tensor | None = None,
) -> Iterator[Batch]:
    """Yield the batches that compute ``nodes``.

    ``size`` 0 is a single pass: every layer computes the whole subgraph, but the last only
    ``nodes`` and, apart from these, ``others``. Otherwise each pass computes ``size`` of the nodes
    and, by neighbourhood expansion, what they need. ``draw`` returns samples of some nodes.
    """
    count = len(inputs.encoding)
    if size == 0:
        drawn = draw(torch.arange(count, device=nodes.device))
        every = AttentionBlock(None, drawn.nodes, drawn.mask, drawn.log_weight)
        further = None if others is None else every.of(others)
        yield Batch(inputs, [every] * (layers - 1) + [every.of(nodes)], nodes, further)
        return
    for targets in nodes.split(size):
        needed, blocks = attention_blocks(draw, targets, count, layers)
        yield Batch(inputs.rows(needed), blocks, targets)


# Vectors of width d that a layer keeps until the backward pass: for a node that is attended to
# (normalised twice, key, value, and the gradient of both), and for a node that is computed.
_ATTENDED, _COMPUTED = 6, 18


def step_bytes(size: int, train: int, graph: Graph, config: RunConfig) -> int:
    """Estimate what a training step keeps in memory.

    Parameters
    ----------
    size : training nodes in the step; 0: all, in a pass over the whole subgraph
    train : training nodes of the subgraph
    """
    nodes, computed, total = graph.num_nodes, size or train, 0
    pairs = config.heads * (1 + config.samples + config.global_nodes)
    for _ in range(config.layers):
        attended = min(nodes, computed * (1 + config.samples)) if size else nodes
        # For each pair of a query and a row: the weight three times, and three indices.
        total += attended * 4 * config.hidden * _ATTENDED
        total += computed * (4 * config.hidden * _COMPUTED + pairs * (3 * 4 + 3 * 8))
        computed = attended
    return total + computed * (4 * config.hidden + 2 * _feature_bytes(graph) // max(nodes, 1))


def resident_bytes(graph: Graph, config: RunConfig) -> int:
    """Estimate what lies in memory between steps: features, encoding and the sampler's pool."""
    pool = 8 * POOL_FACTOR * config.samples * graph.num_nodes
    return _feature_bytes(graph) + 4 * (config.positional_dimensions + 4) * graph.num_nodes + pool


def _feature_bytes(graph: Graph) -> int:
    if isinstance(graph.features, csr_array):
        return 12 * graph.features.nnz  # a column and a value
    return 4 * graph.num_nodes * graph.num_features
