"""The registry of samplers, and the graphsage and attribute pools."""

import numpy as np
import pytest

from fedgt_client.graph import Graph
from fedgt_client.preprocess.attribute import attribute_pool
from fedgt_client.preprocess.graphsage import neighbourhood_pool
from fedgt_client.preprocess.samplers import SAMPLERS, pool_builder
from shared.errors import FedGTError
from tests.fedgt_client.graphs import dense_adjacency, settings, two_groups, without_links
from tests.fedgt_client.small_graphs import random_graph, ring, small_graph


def reached(row: np.ndarray) -> list[int]:
    return sorted(row[row >= 0].tolist())


def test_unknown_sampler() -> None:
    message = f"sampler is 'walk', expected one of {', '.join(SAMPLERS)}$"
    with pytest.raises(FedGTError, match=message):
        pool_builder("walk")


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_pool_keeps_the_contract(sampler: str) -> None:
    """Largest weight first, then padding with -1 and 0; never the node itself."""
    neighbours, weights = pool_builder(sampler).build(two_groups(30), settings(), 12)
    assert neighbours.shape == weights.shape == (30, 12)
    assert (neighbours.dtype, weights.dtype) == (np.dtype(np.int32), np.dtype(np.float32))
    assert (np.diff(weights) <= 0).all()
    assert not (neighbours == np.arange(30)[:, None]).any()
    assert ((neighbours >= 0) == (weights > 0)).all()
    assert neighbours.min() >= -1
    assert neighbours.max() < 30


def test_depth_two_and_no_further() -> None:
    neighbours, weights = neighbourhood_pool(ring(9), size=8, seed=0)
    for node, row in enumerate(neighbours):
        assert reached(row) == sorted((node + step) % 9 for step in (-2, -1, 1, 2))
    assert set(np.unique(weights)) == {0.0, 1.0}


def test_near_ones_come_first_and_stay() -> None:
    graph = random_graph(60, 200, 0)
    adjacency = dense_adjacency(graph)
    two = (adjacency + adjacency @ adjacency > 0) & ~np.eye(60, dtype=bool)
    neighbours, _ = neighbourhood_pool(graph, size=12, seed=1)
    thinned = 0
    for node, row in enumerate(neighbours):
        kept = row[row >= 0]
        assert two[node, kept].all()
        assert len(kept) == min(12, two[node].sum())
        near = adjacency[node, kept] > 0
        assert near.tolist() == sorted(near.tolist(), reverse=True)
        thinned += two[node].sum() > 12
    assert thinned > 10
    assert neighbours.tolist() != neighbourhood_pool(graph, size=12, seed=2)[0].tolist()
    assert neighbours.tolist() == neighbourhood_pool(graph, size=12, seed=1)[0].tolist()


def test_nobody_near() -> None:
    neighbours, weights = neighbourhood_pool(small_graph(3, []), size=4, seed=0)
    assert neighbours.tolist() == [[-1] * 4] * 3
    assert weights.tolist() == [[0.0] * 4] * 3


def cosines(graph: Graph) -> np.ndarray:
    features = graph.dense_features().astype(np.float64)
    lengths = np.linalg.norm(features, axis=1, keepdims=True)
    unit = features / np.maximum(lengths, 1e-12)
    return np.asarray(unit @ unit.T)


@pytest.mark.parametrize("sparse", [True, False])
def test_attribute_weights_are_cosines(sparse: bool) -> None:
    graph = without_links(two_groups(30, sparse=sparse))
    expected = cosines(graph)
    neighbours, weights = attribute_pool(graph, size=5)
    for node, (row, values) in enumerate(zip(neighbours, weights, strict=True)):
        others = np.delete(expected[node], node)
        assert values == pytest.approx(np.sort(others)[::-1][:5], abs=1e-6)
        assert values == pytest.approx(expected[node, row], abs=1e-6)


def test_nothing_in_common_is_no_candidate() -> None:
    """Opposite and orthogonal features, and a node without any."""
    features = np.array([[1, 0], [2, 0], [-1, 0], [0, 1], [0, 0]], np.float32)
    base = small_graph(5, [])
    graph = Graph(
        **{**vars(base), "features": features, "feature_names": ("x", "y")},
    )
    neighbours, weights = attribute_pool(graph, size=3)
    assert [reached(row) for row in neighbours] == [[1], [0], [], [], []]
    assert weights[0, 0] == pytest.approx(1.0)
