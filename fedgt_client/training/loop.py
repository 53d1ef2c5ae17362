"""A training epoch and an evaluation of the graph transformer."""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedgt_client.graph import SPLITS, Graph
from fedgt_client.model.blocks import Batch, batches, whole_graph_bytes
from fedgt_client.model.global_nodes import GlobalNodes
from fedgt_client.model.inputs import NodeInputs
from fedgt_client.model.transformer import GraphTransformer, TransformerOutput
from fedgt_client.preprocess.cache import Prepared
from fedgt_client.sampling import Sampler
from fedgt_client.training.optimiser import take_step
from shared.config import RunConfig


@dataclass(frozen=True)
class LocalData:
    """An institution's subgraph as tensors on the training device."""

    inputs: NodeInputs
    sampler: Sampler
    labels: Tensor  # shape: (n,)
    splits: dict[str, Tensor]  # node ids of train, val and test

    @classmethod
    def of(
        cls, graph: Graph, prepared: Prepared, samples: int, device: torch.device
    ) -> "LocalData":
        """Bring a prepared graph to the device."""
        return cls(
            inputs=NodeInputs.of(graph, prepared.encoding, device),
            sampler=Sampler(prepared.pool, samples, device),
            labels=torch.from_numpy(np.array(graph.labels)).to(device),
            splits={
                name: torch.from_numpy(np.flatnonzero(getattr(graph, name))).to(device)
                for name in SPLITS
            },
        )


@dataclass(frozen=True)
class BatchPlan:
    """How much a step computes at once, and how precisely."""

    train_batch: int  # training nodes in a step; 0: the whole subgraph
    predict_batch: int  # nodes in a prediction; 0: the whole subgraph
    device_type: str
    mixed_precision: bool

    @classmethod
    def fitting(cls, nodes: int, config: RunConfig, device: torch.device) -> "BatchPlan":
        """As configured, in batches where the whole subgraph would pass the memory budget."""
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
        """bfloat16 where asked for and worth it."""
        return torch.autocast(self.device_type, torch.bfloat16, enabled=self.mixed_precision)


@dataclass(frozen=True)
class EpochReport:
    """What an epoch came to."""

    loss: float  # mean over the nodes of all steps taken; NaN where there was nothing to learn
    skipped: int  # steps left out because their gradient was not finite


def train_epoch(
    model: GraphTransformer,
    optimiser: torch.optim.Optimizer,
    data: LocalData,
    global_nodes: GlobalNodes,
    steps: BatchPlan,
) -> EpochReport:
    """One pass over the labelled training nodes, lines 7 and 8 of Algorithm 2.

    The samples and the signs of the positional encoding are drawn anew; the global nodes follow
    every node that a step computes, labelled or not.
    """
    model.train()
    train = data.splits["train"]
    order = train if steps.train_batch == 0 else train[torch.randperm(len(train))]
    losses, counted, skipped = 0.0, 0, 0
    for batch in batches(
        data.inputs.with_flipped_signs(),
        data.sampler.draw(),
        order,
        size=steps.train_batch,
        layers=len(model.layers),
    ):
        with steps.precision():
            output = model(batch.inputs, global_nodes.centres, batch.blocks)
        if len(batch.targets):
            logits = _wanted(output.logits, batch).float()
            loss = functional.cross_entropy(logits, data.labels[batch.targets])
            if take_step(model, optimiser, loss):
                losses += loss.item() * len(batch.targets)
                counted += len(batch.targets)
            else:
                skipped += 1
        global_nodes.update(output.representations)
    return EpochReport(losses / counted if counted else math.nan, skipped)


def predict(
    model: GraphTransformer, data: LocalData, global_nodes: GlobalNodes, steps: BatchPlan
) -> Tensor:
    """Class scores of every node, with the strongest samples, shape (n, classes)."""
    return _infer(model, data, global_nodes, steps, lambda output: output.logits)


def represent(
    model: GraphTransformer, data: LocalData, global_nodes: GlobalNodes, steps: BatchPlan
) -> Tensor:
    """Normalised representations of every node after the last layer, shape (n, d)."""
    return _infer(model, data, global_nodes, steps, lambda output: output.representations[-1])


@torch.no_grad()
def _infer(
    model: GraphTransformer,
    data: LocalData,
    global_nodes: GlobalNodes,
    steps: BatchPlan,
    part: Callable[[TransformerOutput], Tensor],
) -> Tensor:
    model.eval()
    found = []
    with steps.precision():
        for batch in batches(
            data.inputs,
            data.sampler.top_k(),
            torch.arange(len(data.labels), device=data.labels.device),
            size=steps.predict_batch,
            layers=len(model.layers),
        ):
            output = model(batch.inputs, global_nodes.centres, batch.blocks)
            found.append(_wanted(part(output), batch).float())
    return torch.cat(found)


def _wanted(rows: Tensor, batch: Batch) -> Tensor:
    return rows if batch.outputs is None else rows.index_select(0, batch.outputs)
