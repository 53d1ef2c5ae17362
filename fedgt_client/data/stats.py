"""What a partition does to a graph: links lost, label distributions driven apart."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgt_client.graph import UNLABELLED, Graph

Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class ClientStats:
    """One client's subgraph in numbers."""

    nodes: int
    edges: int
    labels: tuple[int, ...]  # nodes of each class; unlabelled ones in none


@dataclass(frozen=True)
class PartitionStats:
    """The paper's appendix figures for one partition."""

    clients: tuple[ClientStats, ...]
    missing_links: int
    heterogeneity: float


def partition_stats(graph: Graph, members: Sequence[Nodes]) -> PartitionStats:
    """Count over ``graph`` what the clients hold, given the node ids of each."""
    sources, targets = graph.arcs()
    held = np.zeros(len(sources), np.bool_)
    clients = []
    for nodes in members:
        here = np.zeros(graph.num_nodes, np.bool_)
        here[nodes] = True
        inside = here[sources] & here[targets]
        held |= inside
        labels = graph.labels[nodes]
        counts = np.bincount(labels[labels != UNLABELLED], minlength=graph.num_classes)
        edges = _links(graph, int(inside.sum()))
        clients.append(ClientStats(len(nodes), edges, tuple(counts.tolist())))
    labels_held = np.array([client.labels for client in clients], np.float64)
    return PartitionStats(
        tuple(clients), _links(graph, int((~held).sum())), heterogeneity(labels_held)
    )


def heterogeneity(counts: NDArray[np.float64]) -> float:
    """Mean cosine distance of label distributions (Appendix "Data Heterogeneity").

    The mean is over all ordered pairs of clients, a client with itself included: so counted, the
    paper's figures come out. Clients without a label have no distribution and are left out.

    Parameters
    ----------
    counts : NDArray[np.float64]
        Labels of each class at each client, shape (clients, classes); any scale per client.
    """
    norms = np.linalg.norm(counts, axis=1)
    directions = counts[norms > 0] / norms[norms > 0, None]
    if len(directions) == 0:
        return 0.0
    return max(0.0, float(1.0 - (directions @ directions.T).mean()))


def _links(graph: Graph, arcs: int) -> int:
    """Links that so many stored arcs stand for."""
    return arcs if graph.directed else arcs // 2
