"""Graph augmentation for FedSage+: hide nodes, and add generated neighbours (Zhang et al. 2021)."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgt_client.csr import weighted_csr
from fedgt_client.graph import UNLABELLED, Graph
from fedgt_client.model.blocks import sampled_neighbours
from fedgt_client.model.graph_tensors import GraphTensors


@dataclass(frozen=True)
class HiddenNodes:
    """A subgraph some of whose nodes are hidden; nodes keep their ids."""

    graph: GraphTensors  # without edges of hidden nodes
    original: GraphTensors
    hidden: Tensor  # shape: (n,), bool
    missing: Tensor  # shape: (n,), number of hidden neighbours of each node

    @property
    def visible(self) -> Tensor:
        """Ids of the nodes that are not hidden."""
        return (~self.hidden).nonzero()[:, 0]

    def hidden_neighbours(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return ids of all hidden nodes, shape (h,), and which are neighbours of ``nodes``.

        The latter has shape (len(nodes), h).
        """
        ids = self.hidden.nonzero()[:, 0]
        column = self.hidden.cumsum(0) - 1
        others, rows = sampled_neighbours(self.original, nodes, None)
        lost = self.hidden[others]
        linked = torch.zeros(len(nodes), len(ids), dtype=torch.bool, device=nodes.device)
        linked[rows[lost], column[others[lost]]] = True
        return ids, linked


def hide_nodes(graph: GraphTensors, share: float, generator: torch.Generator) -> HiddenNodes:
    """Hide a share of the nodes, section 3.2; of a single node none."""
    count = graph.num_nodes
    order = torch.randperm(count, generator=generator)[: int(share * count)]
    hidden = torch.zeros(count, dtype=torch.bool)
    hidden[order] = True
    hidden = hidden.to(graph.device)
    neighbours, rows = graph.edge_index()
    kept = ~(hidden[neighbours] | hidden[rows])
    lengths = torch.bincount(rows[kept], minlength=count)
    indptr = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    missing = torch.bincount(rows[hidden[neighbours]], minlength=count)
    visible = replace(
        graph,
        indptr=indptr,
        neighbours=neighbours[kept],
        weights=None if graph.weights is None else graph.weights[kept],
    )
    return HiddenNodes(visible, graph, hidden, missing)


def add_neighbours(graph: Graph, counts: NDArray[np.int64], features: NDArray[np.float32]) -> Graph:
    """Attach ``counts[v]`` new nodes to each node v, section 3.4.

    The new nodes follow the real ones, have no label and are in no split: they are used neither
    for training nor for evaluation. In a weighted graph their links have the mean weight.

    Parameters
    ----------
    counts : shape (n,)
    features : shape (Σ counts, p), node by node
    """
    old, new = graph.num_nodes, int(counts.sum())
    owners, added = np.repeat(np.arange(old), counts), old + np.arange(new)
    sources, targets = graph.arcs()
    weights = graph.weights
    if weights is not None:
        mean = weights.mean(dtype=np.float64) if len(weights) else 1.0
        weights = np.concatenate([weights, np.full(2 * new, mean)])
    indptr, indices, weights = weighted_csr(
        np.concatenate([sources, owners, added]),
        np.concatenate([targets, added, owners]),
        weights,
        old + new,
    )
    in_no_split = np.zeros(new, np.bool_)
    return replace(
        graph,
        indptr=indptr,
        indices=indices,
        weights=weights,
        features=np.concatenate([graph.dense_features(), features]).astype(np.float32),
        labels=np.concatenate([graph.labels, np.full(new, UNLABELLED)]),
        train=np.concatenate([graph.train, in_no_split]),
        val=np.concatenate([graph.val, in_no_split]),
        test=np.concatenate([graph.test, in_no_split]),
    )
