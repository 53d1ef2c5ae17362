"""Laplacian positional encoding."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedgt_client.graph import Graph
from fedgt_client.preprocess import eigenvectors
from fedgt_client.preprocess.components import adjacency_matrix
from fedgt_client.preprocess.laplacian import laplacian_encoding
from tests.fedgt_client.graphs import dense_adjacency, directed_graph, with_weights
from tests.fedgt_client.hub_graphs import chain, grid, many_components
from tests.fedgt_client.small_graphs import random_graph, ring, small_graph

Matrix = NDArray[np.float64]


def laplacian(graph: Graph) -> Matrix:
    """I − D^-1/2 A D^-1/2 of the graph without directions."""
    adjacency = np.maximum(dense_adjacency(graph), dense_adjacency(graph).T)
    scale = 1 / np.sqrt(np.maximum(adjacency.sum(axis=1), 1))
    return np.asarray(np.eye(graph.num_nodes) - scale[:, None] * adjacency * scale)


def joined(*graphs: Graph) -> Graph:
    """Return one graph of several, without links between them."""
    links, offset = [], 0
    for graph in graphs:
        sources, targets = graph.arcs()
        links += [(int(a) + offset, int(b) + offset) for a, b in zip(sources, targets, strict=True)]
        offset += graph.num_nodes
    return small_graph(offset, links)


def connected(num_nodes: int, seed: int) -> Graph:
    """Return a ring with chords."""
    rng = np.random.default_rng(seed)
    chords = rng.integers(0, num_nodes, (num_nodes, 2))
    around = [(i, (i + 1) % num_nodes) for i in range(num_nodes)]
    return small_graph(num_nodes, around + [(int(a), int(b)) for a, b in chords])


def check_eigenvectors(graph: Graph, encoding: NDArray[np.float32], *, exact: float) -> None:
    """For one connected component: residuals, orthogonality, scale, order."""
    matrix, vectors = laplacian(graph), encoding.astype(np.float64)
    values = (vectors * (matrix @ vectors)).sum(axis=0) / graph.num_nodes
    assert np.abs(matrix @ vectors - vectors * values).max() < exact
    gram = vectors.T @ vectors / graph.num_nodes
    assert gram == pytest.approx(np.eye(vectors.shape[1]), abs=exact)
    degrees = np.diff(graph.indptr)
    assert np.sqrt(degrees) @ vectors == pytest.approx(np.zeros(len(values)), abs=10 * exact)
    expected = np.linalg.eigvalsh(matrix)[1 : len(values) + 1]
    assert values == pytest.approx(expected, abs=exact)


def check_signs(encoding: NDArray[np.float32]) -> None:
    """Expect the largest entry positive; symmetric graphs have two of them."""
    largest = np.abs(encoding).argmax(axis=0)
    assert (encoding[largest, np.arange(encoding.shape[1])] > 0).all()


def test_no_links_no_encoding() -> None:
    assert laplacian_encoding(small_graph(3, []), 8).tolist() == [[0.0] * 8] * 3
    assert laplacian_encoding(small_graph(0, []), 8).shape == (0, 8)
    assert laplacian_encoding(ring(5), 0).shape == (5, 0)


def test_two_nodes() -> None:
    encoding = laplacian_encoding(small_graph(2, [(0, 1)]), 3)
    assert np.abs(encoding[:, 0]) == pytest.approx([1.0, 1.0])
    assert encoding[0, 0] == -encoding[1, 0]
    assert encoding[:, 1:].tolist() == [[0.0, 0.0]] * 2


def test_three_nodes_in_a_row() -> None:
    """Eigenvalues 0, 1 and 2; that of 1 tells the ends apart, that of 2 the middle from them."""
    encoding = laplacian_encoding(small_graph(3, [(0, 1), (1, 2)]), 4)
    assert np.abs(encoding[:, 0]) == pytest.approx(np.sqrt([1.5, 0, 1.5]), abs=1e-6)
    assert np.abs(encoding[:, 1]) == pytest.approx(np.sqrt([0.75, 1.5, 0.75]), abs=1e-6)
    assert encoding[0, 0] == pytest.approx(-encoding[2, 0])
    assert encoding[0, 1] * encoding[1, 1] < 0
    assert encoding[:, 2:].tolist() == [[0.0, 0.0]] * 3


def test_eigenvectors_dense() -> None:
    graph = connected(60, 0)
    encoding = laplacian_encoding(graph, 8)
    check_eigenvectors(graph, encoding, exact=1e-5)
    check_signs(encoding)


def test_eigenvectors_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = connected(90, 1)
    dense = laplacian_encoding(graph, 6)
    monkeypatch.setattr("fedgt_client.preprocess.laplacian._DENSE", 10)
    sparse = laplacian_encoding(graph, 6)
    check_eigenvectors(graph, sparse, exact=1e-4)
    check_signs(sparse)
    assert sparse == pytest.approx(dense, abs=1e-3)


@pytest.mark.parametrize("dense", [10, 512])
def test_solvers_span_the_same_space_where_eigenvalues_repeat(
    dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the first and the last eigenvalue of an odd ring come in pairs."""
    monkeypatch.setattr("fedgt_client.preprocess.laplacian._DENSE", dense)
    encoding = laplacian_encoding(ring(31), 4).astype(np.float64) / np.sqrt(31)
    angles = 2 * np.pi * np.arange(31) / 31
    waves = [wave(k * angles) for k in (1, 2) for wave in (np.sin, np.cos)]
    basis = np.linalg.qr(np.stack(waves, axis=1))[0]
    assert encoding @ encoding.T == pytest.approx(basis @ basis.T, abs=1e-5)


def test_components_are_encoded_on_their_own() -> None:
    parts = (connected(30, 2), small_graph(1, []), small_graph(2, [(0, 1)]), connected(20, 3))
    encoding = laplacian_encoding(joined(*parts), 5)
    offset = 0
    for part in parts:
        alone = laplacian_encoding(part, 5)
        found = encoding[offset : offset + part.num_nodes]
        assert np.abs(found) == pytest.approx(np.abs(alone), abs=1e-4)
        offset += part.num_nodes
    # Unit mean square, whatever the size.
    assert (encoding[:30] ** 2).mean(axis=0) == pytest.approx(np.ones(5), abs=1e-5)
    assert (encoding[33:] ** 2).mean(axis=0) == pytest.approx(np.ones(5), abs=1e-5)


def test_the_same_twice() -> None:
    graph = random_graph(80, 160, 0)
    assert laplacian_encoding(graph, 8).tolist() == laplacian_encoding(graph, 8).tolist()


def test_weights_are_ignored() -> None:
    graph = connected(60, 0)
    assert (laplacian_encoding(with_weights(graph), 4) == laplacian_encoding(graph, 4)).all()


def test_directions_are_ignored() -> None:
    graph = directed_graph(20, 50, 0)
    sources, targets = graph.arcs()
    both = small_graph(20, [(int(a), int(b)) for a, b in zip(sources, targets, strict=True)])
    assert laplacian_encoding(graph, 4) == pytest.approx(laplacian_encoding(both, 4), abs=1e-6)


@pytest.mark.parametrize("graph", [chain(530), grid(23)], ids=["chain", "grid"])
def test_long_graphs_by_shift_and_invert(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eigenvalues are so near 1 that plain iterations stall."""
    monkeypatch.setattr("fedgt_client.preprocess.eigenvectors._direct", lambda *_: None)
    check_eigenvectors(graph, laplacian_encoding(graph, 8), exact=1e-4)


def test_steps_of_lobpcg_where_nothing_else_works(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = connected(600, 4)
    exact = laplacian_encoding(graph, 4)
    for solver in ("_direct", "_shift_and_invert"):
        monkeypatch.setattr(f"fedgt_client.preprocess.eigenvectors.{solver}", lambda *_: None)
    assert laplacian_encoding(graph, 4) == pytest.approx(exact, abs=1e-2)


def test_no_factors_of_a_graph_that_fills_them(monkeypatch: pytest.MonkeyPatch) -> None:
    adjacency = adjacency_matrix(random_graph(600, 6000, 0))
    adjacency.data = np.full(len(adjacency.data), 1 / 40)
    assert eigenvectors._sparse_factors(adjacency) is not None
    monkeypatch.setattr(eigenvectors, "_MAX_FILL", 3)
    assert eigenvectors._sparse_factors(adjacency) is None


def test_many_components() -> None:
    graph = many_components(20_000)
    encoding = laplacian_encoding(graph, 3).astype(np.float64)
    linked = np.diff(graph.indptr) > 0
    assert (encoding[linked, 0] != 0).any()
    assert (encoding[~linked] == 0).all()
    # Two nodes are one up, one down.
    sources, targets = graph.arcs()
    pairs = (np.diff(graph.indptr)[sources] == 1) & (np.diff(graph.indptr)[targets] == 1)
    assert pairs.sum() > 1000
    assert encoding[sources[pairs], 0] == pytest.approx(-encoding[targets[pairs], 0])
    assert np.abs(encoding[sources[pairs], 0]) == pytest.approx(1.0)
