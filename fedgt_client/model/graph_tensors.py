"""A subgraph as tensors on the training device, the same for every model."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedgt_client.graph import SPLITS, Graph
from fedgt_client.model.features import Bags, Features, dense, to_tensor, unit_features
from fedgt_client.model.inputs import NodeInputs

# A hint beside the features: at full scale the model learns positions instead of contents.
ENCODING_SCALE = 0.06


@dataclass(frozen=True)
class GraphTensors:
    """A subgraph on the training device."""

    features: Features  # shape: (n, p), rows of unit length
    encoding: Tensor  # shape: (n, k), the scaled positional encoding; k is 0 for models without
    indptr: Tensor  # shape: (n + 1,)
    neighbours: Tensor  # shape: (m,)
    labels: Tensor  # shape: (n,)
    splits: dict[str, Tensor]  # node ids of train, val and test
    weights: Tensor | None = None  # shape: (m,), of the arcs, 1 in the mean

    @classmethod
    def of(
        cls,
        graph: Graph,
        device: torch.device,
        encoding: np.ndarray | None = None,
        *,
        links: bool = True,
    ) -> "GraphTensors":
        """Copy a graph to the device, with an unscaled encoding of shape (n, k) if there is one.

        Without ``links``, none: the graph transformer reads a sampler's pool in their place.
        """
        if encoding is None:
            encoding = np.empty((graph.num_nodes, 0), np.float32)
        if not links:
            indptr, indices = np.zeros_like(graph.indptr), graph.indices[:0]
            graph = replace(graph, indptr=indptr, indices=indices, weights=None)
        return cls(
            features=unit_features(graph, device),
            encoding=to_tensor(encoding * ENCODING_SCALE, device),
            indptr=to_tensor(graph.indptr, device),
            neighbours=to_tensor(graph.indices, device).long(),
            labels=to_tensor(graph.labels, device),
            splits={
                name: to_tensor(np.flatnonzero(getattr(graph, name)), device) for name in SPLITS
            },
            weights=None if graph.weights is None else _relative(graph.weights, device),
        )

    @property
    def num_nodes(self) -> int:
        """Number of nodes n."""
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.labels.device

    def inputs(self) -> NodeInputs:
        """Return features and encoding of all nodes."""
        return NodeInputs(self.features, self.encoding)

    def dense_features(self) -> Tensor:
        """Return the feature matrix with its zeros, shape (n, p)."""
        return dense(self.features)

    def all_nodes(self) -> Tensor:
        """Return every node's id, shape (n,)."""
        return torch.arange(self.num_nodes, device=self.device)

    def edge_index(self) -> Tensor:
        """Return the arcs from each neighbour to the node whose row it is in, shape (2, m)."""
        rows = self.all_nodes().repeat_interleave(self.indptr.diff())
        return torch.stack([self.neighbours, rows])

    @cached_property
    def normalised_adjacency(self) -> Bags:
        """D^-1/2 (A + I) D^-1/2, shape (n, n), with a row for each node (Kipf & Welling 2017).

        Links count by their weights where the graph has some. A product with sparse rows needs no
        vector for each link, of which a large graph has too many.
        """
        sources, rows, values = normalised_arcs(self.edge_index(), self.weights, self.num_nodes)
        order = rows.argsort(stable=True)
        counts = torch.bincount(rows, minlength=self.num_nodes)
        offsets = functional.pad(counts.cumsum(0), (1, 0))
        matrix = Bags(sources[order], values[order], offsets, self.num_nodes)
        return matrix.sorted_by_column()

    def without_link(self, one: int, other: int) -> "GraphTensors":
        """Return the graph without arcs between two nodes; weights are relative to the same."""
        rows, ends = self.edge_index()[1], torch.tensor([one, other], device=self.device)
        gone = torch.isin(rows, ends) & torch.isin(self.neighbours, ends)
        lost = torch.bincount(rows[gone], minlength=self.num_nodes).cumsum(0)
        return replace(
            self,
            indptr=self.indptr - functional.pad(lost, (1, 0)),
            neighbours=self.neighbours[~gone],
            weights=None if self.weights is None else self.weights[~gone],
        )


def normalised_arcs(
    edge_index: Tensor, weights: Tensor | None, count: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the entries of D^-1/2 (A + I) D^-1/2 of a graph without self-loops.

    Parameters
    ----------
    edge_index : sources and targets of the arcs, shape (2, m)
    weights : of the arcs, shape (m,); None: all are 1
    count : nodes n

    Returns
    -------
    sources, targets and values, each of shape (m + n,); the nodes' own come last
    """
    own = torch.arange(count, device=edge_index.device)
    sources, targets = torch.cat([edge_index, own.expand(2, -1)], dim=1)
    ones = torch.ones(edge_index.shape[1] + count, device=edge_index.device)
    values = ones if weights is None else torch.cat([weights, ones[:count]])
    scale = torch.zeros(count, device=edge_index.device).scatter_add_(0, targets, values).rsqrt()
    return sources, targets, scale[sources] * values * scale[targets]


def _relative(weights: np.ndarray, device: torch.device) -> Tensor:
    """Divide arc weights by their mean, shape (m,).

    So a self-loop of weight 1, as graph convolutions add, counts as much as a mean link,
    in whatever unit the weights are.
    """
    mean = np.mean(weights, dtype=np.float64) if len(weights) else 1.0
    return to_tensor((weights / mean).astype(np.float32), device)
