"""The exact PPR by a dense inverse, and how much of it a pool of candidates carries."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgt_client.graph import Graph

Floats = NDArray[np.float64]


def dense_ppr(graph: Graph, nu: float) -> Floats:
    """Return ν (I − (1 − ν) Ā)^-1, shape (n, n); column i is the distribution of node i."""
    n, degrees = graph.num_nodes, np.diff(graph.indptr)
    weights = np.repeat(1.0 / np.maximum(degrees, 1), degrees)
    walk = sparse.csr_array((weights, graph.indices, graph.indptr), shape=(n, n)).toarray()
    return np.asarray(nu * np.linalg.inv(np.eye(n) - (1.0 - nu) * walk.T))


def carried_mass(exact: Floats, neighbours: NDArray[np.int32], count: int) -> Floats:
    """Return the share of the exact strongest nodes' mass that the chosen ones carry, shape (n,).

    Parameters
    ----------
    exact : shape (n, n), column i the distribution of node i
    neighbours : shape (n, k), the chosen nodes of each node, best first, padded with -1
    count : how many nodes are compared
    """
    n = len(exact)
    values = exact.T.copy()  # row i the distribution of node i
    np.fill_diagonal(values, 0.0)  # a node is not its own candidate
    count = min(count, n - 1)
    strongest = np.partition(values, n - count, axis=1)[:, n - count :].sum(axis=1)
    chosen = neighbours[:, :count]
    found = np.take_along_axis(values, np.maximum(chosen, 0), axis=1)
    mass = np.where(chosen >= 0, found, 0.0).sum(axis=1)
    # A node without links has nothing to carry.
    share: Floats = np.divide(mass, strongest, out=np.ones(n), where=strongest > 0)
    return share
