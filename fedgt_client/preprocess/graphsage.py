"""GraphSAGE's sampler: nodes at most two edges away."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgt_client.graph import Graph
from fedgt_client.preprocess.components import adjacency_matrix
from fedgt_client.preprocess.samplers import PoolBuilder
from fedgt_client.preprocess.top_k import Pool, top_k

# Paths of two links in the graph, above which compiling a loop that lists few of them pays.
_MANY_PATHS = 2_000_000


def neighbourhood_pool(graph: Graph, *, size: int, seed: int) -> Pool:
    """Return nodes at most two edges away, equally likely, nearer ones first.

    A neighbourhood larger than ``size`` is subsampled at random, two-hop nodes dropped first. The
    cost of a node is bounded, whatever the hubs in its neighbourhood.
    """
    degrees = np.diff(graph.indptr)
    if degrees[graph.indices].sum() > _MANY_PATHS:
        from fedgt_client.preprocess.two_hops import two_hop_sample  # numba takes seconds to load

        neighbours = two_hop_sample(graph, size=size, seed=seed)
    else:
        neighbours = _by_products(graph, size, seed)
    return neighbours, (neighbours >= 0).astype(np.float32)


def _by_products(graph: Graph, size: int, seed: int) -> NDArray[np.int32]:
    """Return the same from products of sparse matrices: small graphs need nothing compiled."""
    rng = np.random.default_rng(seed)
    adjacency = adjacency_matrix(graph)

    def score(nodes: NDArray[np.int64]) -> sparse.csr_array:
        direct = adjacency[nodes]
        reached = sparse.csr_array(((direct + direct @ adjacency) > 0).astype(float))
        # (0, 1) for two edges, (1, 2) for one: nearer first, at random within.
        reached.data = rng.uniform(0.01, 0.99, len(reached.data))
        return sparse.csr_array(reached + direct)

    return top_k(score, graph.num_nodes, size)[0]


POOL_BUILDER = PoolBuilder(
    lambda graph, config, size: neighbourhood_pool(graph, size=size, seed=config.seed),
    settings=("seed",),
)
