"""Personalised PageRank, section 4.1: PPR = ν (I − (1 − ν) Ā)^-1, as sparse top-k rows."""

import numpy as np
from numpy.typing import NDArray

from fedgt_client.graph import Graph
from fedgt_client.preprocess.components import Components, weight_matrix
from fedgt_client.preprocess.progress import Progress
from fedgt_client.preprocess.samplers import PoolBuilder
from fedgt_client.preprocess.top_k import Pool

# Components up to this size are solved exactly: as fast as pushing, and nothing to compile.
_DENSE = 1000
# Of a walk, after which few are still on their way: 0.85^30 is below 1 %.
_STEPS = 30
# Smaller values of an inverse are rounding errors: the node cannot be reached.
_ZERO = 1e-12


def personalised_pagerank(
    graph: Graph, *, nu: float = 0.15, tolerance: float = 5e-5, size: int = 64
) -> Pool:
    """Return the ``size`` nodes nearest to each node, itself excluded, and their PPR values.

    Ā is the column-normalised adjacency, so the distribution of node i is *column* i of the PPR
    matrix; row i of the result holds that column's largest entries, equal ones by node id. Where
    links have weights, a walker follows each with a probability proportional to its weight.

    Components of up to 1,000 nodes are inverted. In larger ones residual mass is pushed along the
    links until what is left at any node v is below ``tolerance`` · degree(v), and the rest is
    estimated (see ``push``). A node costs at most 1 / (ν · tolerance) links, whatever the size of
    the graph and of its hubs; memory is that of the result and of a few arrays of n per core.
    """
    neighbours = np.full((graph.num_nodes, size), -1, np.int32)
    weights = np.zeros((graph.num_nodes, size), np.float32)
    components = Components.of(weight_matrix(graph))
    progress = Progress("PPR of small components", components.nodes_up_to(_DENSE))
    for nodes, adjacency in components.dense(_DENSE):
        members, values = _strongest(_inverse(adjacency, nu), size)
        ids = np.take_along_axis(nodes[:, None, :], members, axis=2)
        neighbours[nodes, : members.shape[2]] = np.where(values > 0, ids, -1)
        weights[nodes, : members.shape[2]] = values
        progress.advance(nodes.size)
    large = components.above(_DENSE)
    if len(large.nodes):
        from fedgt_client.preprocess.push import push_pool  # numba takes seconds to load, compile

        probabilities = None if graph.weights is None else _probabilities(large)
        stationary = _pagerank(large, nu) if graph.directed else _stationary(large)
        pool = neighbours, weights
        push_pool(large, probabilities, stationary, nu, tolerance, pool, directed=graph.directed)
    return neighbours, weights


def _inverse(adjacency: NDArray[np.float64], nu: float) -> NDArray[np.float64]:
    """Return the PPR matrices of small components, transposed: row i is node i's; (b, s, s)."""
    strengths = adjacency.sum(axis=2, keepdims=True)
    strengths[strengths == 0] = 1.0  # a node that leads nowhere
    walk = adjacency / strengths
    return nu * np.linalg.inv(np.eye(adjacency.shape[1]) - (1.0 - nu) * walk)


def _strongest(
    ppr: NDArray[np.float64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return the largest entries of each row but the diagonal one: columns, values; (b, s, k)."""
    own = np.arange(ppr.shape[1])
    ppr[:, own, own] = 0.0
    # Nodes in the same position have the same value but for rounding, which float32 hides.
    values = np.where(ppr > _ZERO, ppr, 0.0).astype(np.float32)
    columns = np.argsort(-values, axis=2, kind="stable")[:, :, : min(size, len(own) - 1)]
    return columns, np.take_along_axis(values, columns, axis=2)


def _probabilities(components: Components) -> NDArray[np.float32]:
    """Return the share of each arc in the weights of its node's arcs, shape (m,)."""
    adjacency = components.adjacency
    strengths = np.repeat(adjacency.sum(axis=1), np.diff(adjacency.indptr))
    return np.asarray(adjacency.data / strengths, np.float32)


def _stationary(components: Components) -> NDArray[np.float32]:
    """Return each node's share of the links' weights in its component, shape (n,)."""
    strengths = components.adjacency.sum(axis=1, dtype=np.float64)
    volumes = np.add.reduceat(strengths, components.starts[:-1])
    return np.asarray(strengths / np.repeat(volumes, components.sizes), np.float32)


def _pagerank(components: Components, nu: float) -> NDArray[np.float32]:
    """Return PageRank within each component, which sums to 1 there: the mean of PPR, shape (n,).

    Where links lead one way, walks end in some places: no long walk is the same from everywhere.
    """
    adjacency = components.adjacency
    strengths = adjacency.sum(axis=1, dtype=np.float64)
    back = adjacency.T.tocsr()
    start = np.repeat(1.0 / components.sizes, components.sizes)
    rank = start
    for _ in range(_STEPS):
        rank = nu * start + (1.0 - nu) * (back @ (rank / np.where(strengths > 0, strengths, 1.0)))
    totals = np.add.reduceat(rank, components.starts[:-1])
    return np.asarray(rank / np.repeat(totals, components.sizes), np.float32)


POOL_BUILDER = PoolBuilder(
    lambda graph, config, size: personalised_pagerank(
        graph, nu=config.ppr_nu, tolerance=config.ppr_tolerance, size=size
    ),
    settings=("ppr_nu", "ppr_tolerance"),
)
