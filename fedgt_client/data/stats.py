"""Statistics of a partition: lost links and heterogeneity of label distributions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgt_client.graph import UNLABELLED, Graph

Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class ClientStats:
    """Size and label counts of one client's subgraph."""

    nodes: int
    edges: int
    labels: tuple[int, ...]  # nodes of each class, without unlabelled ones


@dataclass(frozen=True)
class PartitionStats:
    """The paper's appendix figures for one partition."""

    clients: tuple[ClientStats, ...]
    missing_links: int
    heterogeneity: float


def partition_stats(graph: Graph, members: Sequence[Nodes]) -> PartitionStats:
    """Compute the statistics of a partition of ``graph``, given the node ids of each client."""
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
        edges = _link_count(graph, int(inside.sum()))
        clients.append(ClientStats(len(nodes), edges, tuple(counts.tolist())))
    labels_held = np.array([client.labels for client in clients], np.float64)
    return PartitionStats(
        tuple(clients), _link_count(graph, int((~held).sum())), heterogeneity(labels_held)
    )


def heterogeneity(counts: NDArray[np.float64]) -> float:
    """Return the mean cosine distance of label distributions (Appendix "Data Heterogeneity").

    The mean is over all ordered pairs of clients, including a client with itself, which
    reproduces the paper's values. Clients without a label have no distribution and are left out.

    Parameters
    ----------
    counts : NDArray[np.float64]
        Labels of each class at each client, shape (clients, classes); each row at any scale.
    """
    norms = np.linalg.norm(counts, axis=1)
    directions = counts[norms > 0] / norms[norms > 0, None]
    if len(directions) == 0:
        return 0.0
    return max(0.0, float(1.0 - (directions @ directions.T).mean()))


def _link_count(graph: Graph, arcs: int) -> int:
    """Return the number of links that ``arcs`` stored arcs represent."""
    return arcs if graph.directed else arcs // 2
