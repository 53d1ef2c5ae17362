"""Batches of the graph transformer: the whole subgraph at once, or as much as memory allows."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor

from fedgt_client.model.blocks import AttentionBlock, attention_blocks
from fedgt_client.model.inputs import NodeInputs
from fedgt_client.sampling import Samples
from shared.config import RunConfig


@dataclass(frozen=True)
class BatchPlan:
    """How much a step computes at once, and in which precision."""

    train_batch: int  # training nodes in a step; 0: the whole subgraph
    predict_batch: int  # nodes in a prediction; 0: the whole subgraph
    device_type: str
    mixed_precision: bool

    @classmethod
    def fitting(cls, nodes: int, config: RunConfig, device: torch.device) -> "BatchPlan":
        """Plan as configured, in batches if the whole subgraph would exceed the memory budget."""
        budget = config.memory_budget_mb * 2**20
        needed = whole_graph_bytes(
            nodes, samples=config.samples, width=config.hidden, layers=config.layers
        )
        # An expanded node brings its samples along; n_s + 1 of them count for the first layer.
        fitting = max(nodes * budget // max(needed, 1) // (config.samples + 1), 1)
        forced = 0 if needed <= budget else fitting
        train_batch = (
            min(config.batch_size, forced)
            if config.batch_size and forced
            else (config.batch_size or forced)
        )
        mixed = config.mixed_precision and device.type == "cuda"
        return cls(train_batch, forced, device.type, mixed)

    def precision(self) -> AbstractContextManager[None]:
        """Return the autocast context: bfloat16 if mixed precision is on."""
        return torch.autocast(self.device_type, torch.bfloat16, enabled=self.mixed_precision)


@dataclass(frozen=True)
class Batch:
    """The input of a forward pass, and which of its outputs are wanted."""

    inputs: NodeInputs
    blocks: list[AttentionBlock]
    targets: Tensor  # shape: (t,), node ids that the pass is for
    outputs: Tensor | None  # shape: (t,), their rows in the output; None: all, in order

    def wanted(self, rows: Tensor) -> Tensor:
        """Return the output rows of the targets."""
        return rows if self.outputs is None else rows.index_select(0, self.outputs)


def batches(
    inputs: NodeInputs, samples: Samples, nodes: Tensor, *, size: int, layers: int
) -> Iterator[Batch]:
    """Yield the batches that compute ``nodes``.

    ``size`` 0 is a single pass over the whole subgraph, which computes every other node along the
    way; otherwise each pass computes ``size`` of the nodes and, by neighbourhood expansion, what
    they need.
    """
    if size == 0:
        block = AttentionBlock(None, samples.nodes, samples.mask, samples.log_weight)
        yield Batch(inputs, [block] * layers, nodes, nodes)
        return
    for targets in nodes.split(size):
        needed, blocks = attention_blocks(samples, targets, layers)
        yield Batch(inputs.rows(needed), blocks, targets, None)


def whole_graph_bytes(nodes: int, *, samples: int, width: int, layers: int) -> int:
    """Estimate what a training step over all nodes keeps in memory.

    A layer gathers n_s keys and values for each node, keeps their products for the backward pass,
    and holds some twenty further vectors a node (projections, feed-forward, normalisations).
    """
    return 4 * nodes * layers * width * (4 * samples + 20)
