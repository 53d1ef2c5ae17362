"""Small graphs for tests."""

import numpy as np

from fedgt_client.csr import undirected
from fedgt_client.graph import Graph


def small_graph(
    num_nodes: int, links: list[tuple[int, int]], labels: list[int] | None = None
) -> Graph:
    """Return a graph with the given undirected links, two classes, and i as feature of node i."""
    pairs = np.array(links, np.int64).reshape(-1, 2)
    indptr, indices = undirected(pairs[:, 0], pairs[:, 1], num_nodes)
    unset = np.zeros(num_nodes, np.bool_)
    return Graph(
        indptr=indptr,
        indices=indices,
        features=np.arange(num_nodes, dtype=np.float32)[:, None],
        labels=np.array(labels if labels is not None else [0] * num_nodes, np.int64),
        train=unset,
        val=unset,
        test=unset,
        feature_names=("id",),
        class_names=("a", "b"),
    )


def ring(num_nodes: int) -> Graph:
    """Return a graph whose nodes form a circle."""
    return small_graph(num_nodes, [(i, (i + 1) % num_nodes) for i in range(num_nodes)])


def random_graph(num_nodes: int, num_links: int, seed: int) -> Graph:
    """Return a graph with random links and labels."""
    rng = np.random.default_rng(seed)
    links = rng.integers(0, num_nodes, (num_links, 2))
    labels = rng.integers(0, 2, num_nodes).tolist()
    return small_graph(num_nodes, [(int(a), int(b)) for a, b in links], labels)
