"""Generated graphs to measure on: the same for the same arguments on every machine."""

import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedgt_client.csr import undirected
from fedgt_client.graph import Graph
from shared.registry import lookup

Integers = NDArray[np.int64]

_PARETO = 1.5  # exponent of the degrees: their mean is finite, their variance is not
_COMMUNITY = 250  # mean number of nodes
_HOME = 0.7  # share of a node's links that stay in its community


def communities(nodes: int, seed: int = 0, *, mean_degree: float = 16.5) -> Graph:
    """Return a configuration model with Pareto degrees, most links within communities."""
    rng = _generator("communities", nodes, seed)
    group = rng.integers(0, max(nodes // _COMMUNITY, 1), nodes)
    stubs = rng.permutation(np.repeat(np.arange(nodes), _degrees(nodes, mean_degree, rng)))
    home = rng.random(len(stubs)) < _HOME
    local = stubs[home]
    local = local[np.argsort(group[local], kind="stable")]
    sources, targets = _pairs(local)
    same = group[sources] == group[targets]
    across = np.concatenate([stubs[~home], sources[~same], targets[~same]])
    pairs = ((sources[same], targets[same]), _pairs(rng.permutation(across)))
    return _graph(
        nodes, np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])
    )


def social(nodes: int, seed: int = 0, *, mean_degree: float = 24.0) -> Graph:
    """Return a dense configuration model whose largest hubs link to a tenth of all nodes."""
    rng = _generator("social", nodes, seed)
    degrees = _degrees(nodes, mean_degree, rng)
    hubs = max(nodes // 1000, 1)
    degrees[np.argsort(degrees)[-hubs:]] = nodes // 10
    return _graph(nodes, *_pairs(rng.permutation(np.repeat(np.arange(nodes), degrees))))


def chain(nodes: int, seed: int = 0) -> Graph:
    """Return a path: nothing is near, and the Laplacian's eigenvalues lie close together."""
    return _graph(nodes, np.arange(nodes - 1), np.arange(1, nodes))


KINDS: dict[str, Callable[[int, int], Graph]] = {
    "communities": communities,
    "social": social,
    "chain": chain,
}


def make_graph(kind: str, nodes: int, seed: int = 0) -> Graph:
    """Return a graph of a kind by its name, without features and labels."""
    return lookup(KINDS, "kind", kind)(nodes, seed)


def with_data(graph: Graph, *, features: int, classes: int, train: float, seed: int = 0) -> Graph:
    """Add dense normal features and random labels; half of the rest validates, half tests."""
    rng = _generator("data", graph.num_nodes, seed)
    dense = rng.standard_normal((graph.num_nodes, features), dtype=np.float32)
    return _labelled(
        replace(graph, features=dense, feature_names=_names(features)), classes, train, rng
    )


def cora_sized(seed: int = 0) -> Graph:
    """Return a graph of the size of Cora's largest component: words of papers as features."""
    nodes, words, each = 2485, 1433, 18
    rng = _generator("cora-sized", nodes, seed)
    columns = np.sort(rng.integers(0, words, (nodes, each)), axis=1)
    rows = np.repeat(np.arange(nodes), each)
    matrix = csr_array((np.ones(columns.size, np.float32), (rows, columns.ravel())), (nodes, words))
    matrix.sum_duplicates()
    matrix.data[:] = 1.0
    graph = communities(nodes, seed, mean_degree=4.6)
    sparse = replace(graph, features=matrix, feature_names=_names(words))
    return _labelled(sparse, 7, 0.2, rng)


def _labelled(graph: Graph, classes: int, train: float, rng: np.random.Generator) -> Graph:
    """Draw labels and a split, the training nodes being the share ``train``."""
    draw, n = rng.random(graph.num_nodes), graph.num_nodes
    middle = train + (1 - train) / 2
    return replace(
        graph,
        labels=rng.integers(0, classes, n),
        train=draw < train,
        val=(draw >= train) & (draw < middle),
        test=draw >= middle,
        class_names=tuple(f"class-{number}" for number in range(classes)),
    )


def _degrees(nodes: int, mean: float, rng: np.random.Generator) -> Integers:
    """Draw Pareto degrees of about the given mean, none above a tenth of the nodes."""
    smallest = mean * (_PARETO - 1) / _PARETO
    drawn = smallest * (1 + rng.pareto(_PARETO, nodes))
    # Rounded at random, so that the mean stays.
    whole = np.floor(drawn + rng.random(nodes)).astype(np.int64)
    return np.clip(whole, 1, max(nodes // 10, 1))


def _pairs(stubs: Integers) -> tuple[Integers, Integers]:
    """Return both ends of links between neighbouring stubs; an odd last one stays alone."""
    even = len(stubs) // 2 * 2
    return stubs[:even:2], stubs[1:even:2]


def _graph(nodes: int, sources: Integers, targets: Integers) -> Graph:
    indptr, indices = undirected(sources, targets, nodes)
    unset = np.zeros(nodes, np.bool_)
    return Graph(
        indptr=indptr,
        indices=indices,
        features=np.zeros((nodes, 0), np.float32),
        labels=np.full(nodes, -1),
        train=unset,
        val=unset,
        test=unset,
        feature_names=(),
        class_names=(),
    )


def _names(features: int) -> tuple[str, ...]:
    return tuple(f"feature-{number}" for number in range(features))


def _generator(purpose: str, nodes: int, seed: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(purpose.encode()), nodes, seed])
