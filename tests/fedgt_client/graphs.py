"""Graphs that a small model can learn from, or stumble over."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from deploy.settings import resolve_settings
from fedgt_client.csr import csr_from_arcs, undirected
from fedgt_client.graph import Graph
from shared.config import RunConfig, Scalar


def settings(**changed: Scalar) -> RunConfig:
    """Return the settings of a small, quick graph transformer on the CPU, with none beside it."""
    values: dict[str, Scalar] = {
        "hidden": 16,
        "layers": 2,
        "node-dropout": 0.0,
        "own-model": False,
        "common-model": "off",
        "heads": 2,
        "samples": 4,
        "global-nodes": 3,
        "positional-dimensions": 2,
        "rounds": 5,
        "device": "cpu",
        "ldp": "off",
    }
    return resolve_settings(values | {key.replace("_", "-"): v for key, v in changed.items()})


def two_groups(num_nodes: int = 40, *, seed: int = 0, sparse: bool = False) -> Graph:
    """Two groups of nodes, linked within themselves, distinguished by their features."""
    rng = np.random.default_rng(seed)
    labels = np.arange(num_nodes) % 2
    features = rng.random((num_nodes, 6)).astype(np.float32) * 0.2
    features[np.arange(num_nodes), labels] += 1.0
    if sparse:
        features[features < 0.1] = 0.0
    sources = rng.integers(0, num_nodes, 4 * num_nodes)
    targets = (sources + 2 * rng.integers(1, num_nodes // 2, 4 * num_nodes)) % num_nodes
    indptr, indices = undirected(sources, targets, num_nodes)
    part = np.arange(num_nodes) // 2 % 3
    return Graph(
        indptr=indptr,
        indices=indices,
        features=csr_array(features) if sparse else features,
        labels=labels,
        train=part == 0,
        val=part == 1,
        test=part == 2,
        feature_names=tuple(f"f{i}" for i in range(6)),
        class_names=("even", "odd"),
    )


def without_links(graph: Graph) -> Graph:
    """Return the same nodes without links."""
    return replace(
        graph,
        indptr=np.zeros(graph.num_nodes + 1, np.int64),
        indices=np.zeros(0, np.int32),
    )


def directed_graph(num_nodes: int, num_arcs: int, seed: int) -> Graph:
    """Arcs drawn at random, one way each; some nodes lead nowhere."""
    rng = np.random.default_rng(seed)
    indptr, indices = csr_from_arcs(
        rng.integers(0, num_nodes, num_arcs), rng.integers(0, num_nodes, num_arcs), num_nodes
    )
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
        directed=True,
    )


def with_weights(graph: Graph, spread: float = 1.5, seed: int = 0, unit: float = 1.0) -> Graph:
    """Return the graph with log-normal weights of its links, the larger the spread the more so."""
    sources, targets = graph.arcs()
    low, high = np.minimum(sources, targets), np.maximum(sources, targets)
    link = sources * graph.num_nodes + targets if graph.directed else low * graph.num_nodes + high
    numbers, place = np.unique(link, return_inverse=True)
    drawn = np.random.default_rng(seed).lognormal(0, spread, len(numbers))
    return replace(graph, weights=(unit * drawn[place]).astype(np.float32))


def dense_adjacency(graph: Graph) -> NDArray[np.float64]:
    """Row i, column j: whether i leads to j, or the weight of that."""
    adjacency = np.zeros((graph.num_nodes, graph.num_nodes))
    adjacency[graph.arcs()] = 1.0 if graph.weights is None else graph.weights
    return adjacency
