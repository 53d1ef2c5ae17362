"""Generated graphs of kinds that are hard to prepare: hubs, flat tails, long paths, many parts."""

import numpy as np
from numpy.typing import NDArray

from fedgt_client.csr import undirected
from fedgt_client.graph import Graph

Ids = NDArray[np.int64]


def linked(sources: Ids, targets: Ids, num_nodes: int) -> Graph:
    """Return a graph with the given undirected links; its nodes have one feature and one class."""
    indptr, indices = undirected(sources, targets, num_nodes)
    unset = np.zeros(num_nodes, np.bool_)
    return Graph(
        indptr=indptr,
        indices=indices,
        features=np.ones((num_nodes, 1), np.float32),
        labels=np.zeros(num_nodes, np.int64),
        train=unset,
        val=unset,
        test=unset,
        feature_names=("one",),
        class_names=("a",),
    )


def hubs_and_communities(
    num_nodes: int,
    *,
    seed: int = 0,
    least: float = 4.6,
    community: int = 100,
    outside: float = 0.25,
) -> Graph:
    """Return a configuration model: Pareto 1.5 degrees up to n / 10, in communities.

    The mean degree is about three times ``least``; a share ``outside`` of the links leaves the
    communities, which have about ``community`` nodes each.
    """
    rng = np.random.default_rng(seed)
    degrees = np.minimum(least * (1 + rng.pareto(1.5, num_nodes)), num_nodes / 10).astype(np.int64)
    return _configuration(degrees, community, outside, rng)


def flat_social(num_nodes: int, *, seed: int = 0, mean: float = 40, outside: float = 0.5) -> Graph:
    """Return a dense graph of broad degrees and weak communities: many similar PPR values."""
    rng = np.random.default_rng(seed)
    degrees = np.minimum(rng.lognormal(np.log(mean) - 0.5, 1.0, num_nodes), num_nodes / 3)
    return _configuration(np.maximum(degrees, 1).astype(np.int64), 200, outside, rng)


def _configuration(degrees: Ids, community: int, outside: float, rng: np.random.Generator) -> Graph:
    """Pair the ends of links at random, within communities or among all nodes."""
    n = len(degrees)
    member = rng.integers(0, max(n // community, 1), n)
    ends = np.repeat(np.arange(n), degrees)
    leaving = rng.random(len(ends)) < outside
    group = np.where(leaving, -1, member[ends])
    ends = ends[np.lexsort((rng.random(len(ends)), group))]
    half = len(ends) // 2
    return linked(ends[: 2 * half : 2], ends[1 : 2 * half : 2], n)


def chain(num_nodes: int) -> Graph:
    """Return nodes in a row."""
    nodes = np.arange(num_nodes - 1)
    return linked(nodes, nodes + 1, num_nodes)


def grid(side: int) -> Graph:
    """Return a square grid of side² nodes."""
    nodes = np.arange(side * side).reshape(side, side)
    sources = np.concatenate([nodes[:, :-1].ravel(), nodes[:-1].ravel()])
    targets = np.concatenate([nodes[:, 1:].ravel(), nodes[1:].ravel()])
    return linked(sources, targets, side * side)


def star(leaves: int) -> Graph:
    """Return a hub, node 0, and its leaves."""
    return linked(np.zeros(leaves, np.int64), np.arange(1, leaves + 1), leaves + 1)


def cliques(size: int, count: int = 1, *, joined: bool = False) -> Graph:
    """Return complete graphs; ``joined``: with a link from each to the next."""
    first, second = np.triu_indices(size, 1)
    offsets = np.repeat(np.arange(count) * size, len(first))
    sources, targets = np.tile(first, count) + offsets, np.tile(second, count) + offsets
    if joined:
        bridges = np.arange(1, count) * size
        sources, targets = np.append(sources, bridges - 1), np.append(targets, bridges)
    return linked(sources, targets, size * count)


def many_components(num_nodes: int, *, seed: int = 0) -> Graph:
    """Return short random trees of 1 to 6 nodes."""
    rng = np.random.default_rng(seed)
    starts = np.cumsum(rng.integers(1, 7, num_nodes))
    first = np.concatenate([[0], starts[starts < num_nodes]])
    nodes = np.setdiff1d(np.arange(num_nodes), first)
    root = first[np.searchsorted(first, nodes, side="right") - 1]
    return linked(nodes, rng.integers(root, nodes), num_nodes)
