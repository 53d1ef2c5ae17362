"""What message-passing models have in common: the subgraph as tensors, and sampled neighbours."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from fedgt_client.graph import SPLITS, Graph
from fedgt_client.model.features import Features, dense, project, to_tensor, unit_features


@dataclass(frozen=True)
class GraphTensors:
    """A subgraph on the training device."""

    features: Features  # shape: (n, p), rows of unit length
    indptr: Tensor  # shape: (n + 1,)
    neighbours: Tensor  # shape: (m,)
    labels: Tensor  # shape: (n,)
    splits: dict[str, Tensor]  # node ids of train, val and test

    @classmethod
    def of(cls, graph: Graph, device: torch.device) -> "GraphTensors":
        """Bring a graph to the device, its features scaled as FedGT's are."""
        return cls(
            features=unit_features(graph, device),
            indptr=to_tensor(graph.indptr, device),
            neighbours=to_tensor(graph.indices, device).long(),
            labels=to_tensor(graph.labels, device),
            splits={
                name: to_tensor(np.flatnonzero(getattr(graph, name)), device) for name in SPLITS
            },
        )

    @property
    def num_nodes(self) -> int:
        """n."""
        return len(self.labels)

    def dense_features(self) -> Tensor:
        """The feature matrix with its zeros, shape (n, p)."""
        return dense(self.features)

    def all_nodes(self) -> Tensor:
        """Every node's id, shape (n,)."""
        return torch.arange(self.num_nodes, device=self.labels.device)

    def edge_index(self) -> Tensor:
        """From each neighbour to the node whose row it stands in, shape (2, m)."""
        rows = self.all_nodes().repeat_interleave(self.indptr.diff())
        return torch.stack([self.neighbours, rows])


class GraphModel(nn.Module, ABC):
    """Scores nodes of a subgraph."""

    @abstractmethod
    def forward(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Class scores of ``nodes``, shape (len(nodes), classes)."""


class FeatureEncoder(nn.Module):
    """A linear map of features to width d, laid out as ``project`` reads it.

    nn.Linear has its weight the other way round, to be copied in every pass.
    """

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features, width))
        self.bias = nn.Parameter(torch.empty(width))
        for parameter in (self.weight, self.bias):
            nn.init.uniform_(parameter, -(features**-0.5), features**-0.5)

    def forward(self, features: Features) -> Tensor:
        """Shape (n, p) to (n, d)."""
        return project(features, self.weight) + self.bias


@dataclass(frozen=True)
class MessageBlock:
    """One layer of message passing: what it reads, and for whom."""

    inputs: Tensor  # shape: (i,), node ids; the targets come first
    targets: int
    edge_index: Tensor  # shape: (2, e), positions in ``inputs``, from neighbour to target


def message_block(graph: GraphTensors, nodes: Tensor, samples: int | None) -> MessageBlock:
    """All neighbours of ``nodes``, or ``samples`` of each drawn without replacement."""
    sources, targets = sampled_neighbours(graph, nodes, samples)
    others = torch.unique(sources)
    others = others[~torch.isin(others, nodes)]
    inputs = torch.cat([nodes, others])
    position = torch.empty(graph.num_nodes, dtype=torch.long, device=nodes.device)
    position[inputs] = torch.arange(len(inputs), device=nodes.device)
    return MessageBlock(inputs, len(nodes), torch.stack([position[sources], targets]))


def sampled_neighbours(
    graph: GraphTensors, nodes: Tensor, samples: int | None
) -> tuple[Tensor, Tensor]:
    """Neighbours of ``nodes`` and for each, whose it is (a position in ``nodes``)."""
    starts, counts = graph.indptr[nodes], graph.indptr.diff()[nodes]
    rows = torch.arange(len(nodes), device=nodes.device).repeat_interleave(counts)
    first = counts.cumsum(0) - counts  # where each row starts among those taken
    rank = torch.arange(len(rows), device=nodes.device) - first[rows]
    sources = graph.neighbours[starts[rows] + rank]
    if samples is None:
        return sources, rows
    # Sorted by row plus a fraction, each row stays together and is shuffled in itself.
    shuffled = (rows + torch.rand(len(rows), dtype=torch.float64, device=rows.device)).argsort()
    kept = shuffled[rank < samples]
    return sources[kept], rows[kept]
