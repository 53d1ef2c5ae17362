"""Personalised PageRank against the dense inverse."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedgt_client.graph import Graph
from fedgt_client.preprocess.ppr import personalised_pagerank
from fedgt_client.preprocess.top_k import Pool
from tests.fedgt_client.graphs import dense_adjacency, directed_graph, with_weights
from tests.fedgt_client.hub_graphs import star
from tests.fedgt_client.small_graphs import random_graph, small_graph

Matrix = NDArray[np.float64]


def dense_ppr(graph: Graph, nu: float) -> Matrix:
    """ν (I − (1 − ν) Ā)^-1, Ā column-normalised; column i is node i's distribution."""
    leaving = dense_adjacency(graph)
    strengths = leaving.sum(axis=1)
    # Column v of Ā is where a walker at v goes; nowhere, if v leads nowhere.
    columns = leaving.T / np.where(strengths > 0, strengths, 1)
    return np.asarray(nu * np.linalg.inv(np.eye(graph.num_nodes) - (1 - nu) * columns))


def unfolded(pool: Pool) -> Matrix:
    """Column i holds node i's values, 0 where it has none."""
    neighbours, weights = pool
    matrix = np.zeros((len(neighbours), len(neighbours)))
    for node, (row, values) in enumerate(zip(neighbours, weights, strict=True)):
        matrix[row[row >= 0], node] = values[row >= 0]
    return matrix


def off_diagonal(matrix: Matrix) -> Matrix:
    return np.where(np.eye(len(matrix), dtype=bool), 0.0, matrix)


def test_no_links_no_candidates() -> None:
    neighbours, weights = personalised_pagerank(small_graph(3, []), size=4)
    assert neighbours.tolist() == [[-1] * 4] * 3
    assert weights.tolist() == [[0.0] * 4] * 3


def test_no_nodes() -> None:
    neighbours, _ = personalised_pagerank(small_graph(0, []), size=4)
    assert neighbours.shape == (0, 4)


@settings(max_examples=20, deadline=None)
@given(nodes=st.integers(2, 40), density=st.floats(0, 3), seed=st.integers(0, 2**31))
def test_small_components_are_exact(nodes: int, density: float, seed: int) -> None:
    """Sparse graphs have isolated nodes and several components."""
    graph = random_graph(nodes, int(density * nodes), seed)
    exact = off_diagonal(dense_ppr(graph, 0.15))
    found = unfolded(personalised_pagerank(graph, nu=0.15, size=nodes))
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("nu", [0.05, 0.5, 0.95])
def test_matches_for_other_nu(nu: float) -> None:
    graph = random_graph(20, 40, 0)
    found = unfolded(personalised_pagerank(graph, nu=nu, size=20))
    assert found == pytest.approx(off_diagonal(dense_ppr(graph, nu)), abs=1e-6)


def test_directed_arcs_are_walked_one_way() -> None:
    graph = directed_graph(25, 60, 0)
    assert (np.diff(graph.indptr) == 0).any()
    found = unfolded(personalised_pagerank(graph, size=25))
    assert found == pytest.approx(off_diagonal(dense_ppr(graph, 0.15)), abs=1e-6)
    assert np.abs(found - found.T).max() > 0.01


@settings(max_examples=20, deadline=None)
@given(
    nodes=st.integers(2, 40),
    density=st.floats(0, 3),
    spread=st.floats(0, 4),
    seed=st.integers(0, 2**31),
)
def test_weights_are_probabilities_of_the_walk(
    nodes: int, density: float, spread: float, seed: int
) -> None:
    graph = with_weights(random_graph(nodes, int(density * nodes), seed), spread, seed)
    exact = off_diagonal(dense_ppr(graph, 0.15))
    found = unfolded(personalised_pagerank(graph, nu=0.15, size=nodes))
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-9)


def test_weights_of_directed_arcs() -> None:
    graph = with_weights(directed_graph(25, 60, 0))
    found = unfolded(personalised_pagerank(graph, size=25))
    assert found == pytest.approx(off_diagonal(dense_ppr(graph, 0.15)), abs=1e-6)


def test_a_heavy_link_comes_first() -> None:
    """Node 1 has links to 0 and 2; only their weights tell them apart."""
    graph = replace(small_graph(3, [(0, 1), (1, 2)]), weights=np.array([1, 1, 99, 99], np.float32))
    neighbours, weights = personalised_pagerank(graph, size=2)
    assert neighbours[1].tolist() == [2, 0]
    assert weights[1, 0] == pytest.approx(99 * weights[1, 1], rel=1e-5)


@pytest.mark.parametrize("unit", [1e-30, 1e-3, 1e6, 1e30])
def test_the_unit_of_weights_does_not_matter(unit: float) -> None:
    graph = random_graph(60, 150, 3)
    plain = personalised_pagerank(graph)
    even = np.full(len(graph.indices), unit, np.float32)
    weighted = personalised_pagerank(replace(graph, weights=even))
    assert unfolded(weighted) == pytest.approx(unfolded(plain), rel=1e-5)


def test_columns_not_rows() -> None:
    """The hub's candidates share what leaves it; a leaf's first candidate is the hub."""
    graph = star(5)
    found = unfolded(personalised_pagerank(graph, size=5))
    exact = dense_ppr(graph, 0.15)
    assert found[:, 0] == pytest.approx(off_diagonal(exact)[:, 0], abs=1e-6)
    assert found[:, 0].sum() + exact[0, 0] == pytest.approx(1.0, abs=1e-5)
    assert found[0, 1] > 5 * found[1, 0] - 1e-6
    # Rows of the matrix are no distributions.
    assert exact[0].sum() == pytest.approx(3.0, abs=0.5)


def test_itself_excluded_and_sorted() -> None:
    neighbours, weights = personalised_pagerank(random_graph(50, 120, 1), size=8)
    assert not (neighbours == np.arange(50)[:, None]).any()
    assert (np.diff(weights, axis=1) <= 0).all()
    assert ((neighbours >= 0) == (weights > 0)).all()
    for row in neighbours:
        kept = row[row >= 0]
        assert len(set(kept.tolist())) == len(kept)


def test_the_strongest_are_kept() -> None:
    graph = random_graph(30, 90, 2)
    full, few = (personalised_pagerank(graph, size=size) for size in (30, 5))
    assert few[0].tolist() == full[0][:, :5].tolist()
    assert few[1].tolist() == full[1][:, :5].tolist()


def test_unreachable_are_masked() -> None:
    graph = small_graph(6, [(0, 1), (1, 2), (3, 4)])
    neighbours, weights = personalised_pagerank(graph, size=4)
    assert [sorted(row[row >= 0].tolist()) for row in neighbours] == [
        [1, 2],
        [0, 2],
        [0, 1],
        [4],
        [3],
        [],
    ]
    assert weights[5].tolist() == [0.0] * 4


def test_equal_values_in_the_order_of_ids() -> None:
    neighbours, weights = personalised_pagerank(star(40), size=8)
    assert neighbours[0].tolist() == list(range(1, 9))
    assert neighbours[5].tolist() == [0, 1, 2, 3, 4, 6, 7, 8]
    assert len(set(weights[5, 1:].tolist())) == 1


def test_numba_is_not_needed_for_small_graphs() -> None:
    code = (
        "import sys; from tests.fedgt_client.small_graphs import random_graph as graph;"
        "from fedgt_client.preprocess.ppr import personalised_pagerank;"
        "personalised_pagerank(graph(900, 3000, 0)); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
