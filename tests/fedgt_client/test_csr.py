import numpy as np
from scipy.sparse import csr_array

from fedgt_client.csr import csr_from_arcs, undirected, weighted_csr, weighted_undirected


def test_rows_are_sorted() -> None:
    indptr, indices = csr_from_arcs(np.array([0, 0, 0, 2]), np.array([2, 1, 2, 0]), 3)
    assert indptr.tolist() == [0, 2, 2, 3]
    assert indices.tolist() == [1, 2, 0]


def test_no_nodes() -> None:
    indptr, indices = undirected(np.empty(0, np.int64), np.empty(0, np.int64), 0)
    assert indptr.tolist() == [0]
    assert len(indices) == 0


def test_weights_of_parallel_arcs_are_added_up_and_loops_dropped() -> None:
    sources, targets = np.array([2, 0, 0, 1, 0]), np.array([0, 2, 1, 1, 2])
    indptr, indices, weights = weighted_csr(sources, targets, np.array([1, 2, 4, 8, 16.0]), 3)
    assert indptr.tolist() == [0, 2, 2, 3]
    assert indices.tolist() == [1, 2, 0]
    assert weights is not None
    assert weights.dtype == np.float32
    assert weights.tolist() == [4, 18, 1]


def test_undirected_weights_are_the_same_to_the_bit_in_both_rows() -> None:
    rng = np.random.default_rng(0)
    sources, targets = rng.integers(0, 9, (2, 2000))
    indptr, indices, weights = weighted_undirected(sources, targets, rng.lognormal(0, 9, 2000), 9)
    assert weights is not None
    plain = undirected(sources, targets, 9)
    assert (indptr == plain[0]).all()
    assert (indices == plain[1]).all()
    matrix = csr_array((weights, indices, indptr), shape=(9, 9)).toarray()
    assert (matrix == matrix.T).all()
