"""Personalised PageRank, section 4.1: PPR = ν (I − (1 − ν) Ā)^-1, as sparse top-k rows."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgt_client.graph import Graph
from fedgt_client.preprocess.samplers import PoolBuilder
from fedgt_client.preprocess.top_k import Pool, top_k


def personalised_pagerank(
    graph: Graph, *, nu: float = 0.15, tolerance: float = 1e-5, size: int = 64
) -> Pool:
    """Return the ``size`` nodes nearest to each node, itself excluded, and their PPR values.

    Ā is the column-normalised adjacency, so the distribution of node i is *column* i of the PPR
    matrix; row i of the result holds that column's largest entries. No dense inverse is made:
    residual mass is pushed along links, for a block of nodes at a time, until what is left at any
    node v is below ``tolerance`` · degree(v) (Andersen, Chung, Lang 2006). Each value is exact to
    that bound (links without direction), and the cost of a node does not grow with the graph.
    """
    n = graph.num_nodes
    degrees = np.diff(graph.indptr)
    # Row v of `walk` is column v of Ā: where a walker at v goes next.
    walk = sparse.csr_array(
        (np.repeat(1.0 / np.maximum(degrees, 1), degrees), graph.indices, graph.indptr),
        shape=(n, n),
    )
    threshold = np.maximum(degrees, 1) * tolerance
    return top_k(lambda nodes: _push(walk, threshold, nodes, nu), n, size)


def _push(
    walk: sparse.csr_array, threshold: NDArray[np.float64], nodes: NDArray[np.int64], nu: float
) -> sparse.csr_array:
    """Return PPR of ``nodes`` up to the threshold, shape (len(nodes), n)."""
    shape = (len(nodes), walk.shape[0])
    scores = sparse.csr_array(shape)
    residual = sparse.csr_array((np.ones(len(nodes)), (np.arange(len(nodes)), nodes)), shape=shape)
    while True:
        large = residual.data > threshold[residual.indices]
        if not large.any():
            # Some of what is left at a node stays there: it brings every value nearer, and in
            # the neighbours of a hub, below the threshold from the start, it is all there is.
            return scores + nu * residual
        pushed = _masked(residual, large)
        scores = scores + nu * pushed
        residual = _masked(residual, ~large) + (1.0 - nu) * (pushed @ walk)


def _masked(matrix: sparse.csr_array, kept: NDArray[np.bool_]) -> sparse.csr_array:
    """Return ``matrix`` with only the kept of its stored entries."""
    result = matrix.copy()
    result.data = np.where(kept, matrix.data, 0.0)
    result.eliminate_zeros()
    return result


POOL_BUILDER = PoolBuilder(
    lambda graph, config, size: personalised_pagerank(
        graph, nu=config.ppr_nu, tolerance=config.ppr_tolerance, size=size
    ),
    settings=("ppr_nu", "ppr_tolerance"),
)
