"""The CSR form of links: ``indptr``, ``indices`` and the arcs' weights."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array


def csr_from_arcs(
    sources: NDArray[np.int64], targets: NDArray[np.int64], num_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return ``indptr``, shape (num_nodes + 1,), and ``indices`` of the CSR form of the arcs.

    Rows are sorted; duplicates and self-loops are dropped.
    """
    kept = sources != targets
    # One number per arc: a single sort both orders and deduplicates. np.unique hashes first, which
    # takes ten times as long for millions of arcs.
    keys = np.sort(sources[kept].astype(np.int64) * num_nodes + targets[kept])
    keys = keys[np.diff(keys, prepend=-1) != 0]
    indptr = np.zeros(num_nodes + 1, np.int64)
    np.cumsum(np.bincount(keys // max(num_nodes, 1), minlength=num_nodes), out=indptr[1:])
    return indptr, (keys % max(num_nodes, 1)).astype(np.int32)


def undirected(
    sources: NDArray[np.int64], targets: NDArray[np.int64], num_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return what ``csr_from_arcs`` does, with every arc in both directions."""
    return csr_from_arcs(
        np.concatenate([sources, targets]), np.concatenate([targets, sources]), num_nodes
    )


def weighted_csr(
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    weights: NDArray[np.floating] | None,
    num_nodes: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32] | None]:
    """Return what ``csr_from_arcs`` does, and the weights of its arcs, shape (m,).

    The weights of duplicate arcs are added up. Arcs without weights have none afterwards.
    """
    indptr, indices = csr_from_arcs(sources, targets, num_nodes)
    if weights is None:
        return indptr, indices, None
    kept = sources != targets
    matrix = coo_array(
        (weights[kept].astype(np.float64), (sources[kept], targets[kept])),
        shape=(num_nodes, num_nodes),
    ).tocsr()  # adds duplicates up
    matrix.sort_indices()
    return indptr, indices, matrix.data.astype(np.float32)


def weighted_undirected(
    sources: NDArray[np.int64],
    targets: NDArray[np.int64],
    weights: NDArray[np.floating] | None,
    num_nodes: int,
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32] | None]:
    """Return what ``weighted_csr`` does, with every arc in both directions."""
    if weights is None:
        return *undirected(sources, targets, num_nodes), None
    # From the lower to the higher number first: added up in another order in each row, the two
    # weights of a link could differ in the last bit.
    low, high = np.minimum(sources, targets), np.maximum(sources, targets)
    indptr, high, sums = weighted_csr(low, high, weights, num_nodes)
    low = np.repeat(np.arange(num_nodes), np.diff(indptr))
    assert sums is not None
    ends = np.concatenate([low, high]), np.concatenate([high, low])
    return weighted_csr(*ends, np.concatenate([sums, sums]), num_nodes)


def row_positions(
    indptr: NDArray[np.integer], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indptr of the chosen rows, and where their entries are in the old arrays."""
    lengths = np.diff(indptr)[rows]
    chosen = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=chosen[1:])
    positions = np.arange(chosen[-1]) + np.repeat(indptr[rows] - chosen[:-1], lengths)
    return chosen, positions
