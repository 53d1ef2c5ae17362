"""GraphSAGE's sampler: nodes at most two edges away."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgt_client.graph import Graph
from fedgt_client.preprocess.samplers import PoolBuilder
from fedgt_client.preprocess.top_k import Pool, top_k


def neighbourhood_pool(graph: Graph, *, size: int, seed: int) -> Pool:
    """Return nodes at most two edges away, equally likely, nearer ones first.

    A neighbourhood larger than ``size`` is subsampled at random, two-hop nodes dropped first.
    """
    n = graph.num_nodes
    rng = np.random.default_rng(seed)
    ones = np.ones(len(graph.indices))
    adjacency = sparse.csr_array((ones, graph.indices, graph.indptr), shape=(n, n))

    def score(nodes: NDArray[np.int64]) -> sparse.csr_array:
        direct = adjacency[nodes]
        reached = sparse.csr_array(((direct + direct @ adjacency) > 0).astype(float))
        # (0, 1) for two edges, (1, 2) for one: nearer first, at random within.
        reached.data = rng.uniform(0.01, 0.99, len(reached.data))
        return reached + direct

    neighbours, _ = top_k(score, n, size)
    return neighbours, (neighbours >= 0).astype(np.float32)


POOL_BUILDER = PoolBuilder(
    lambda graph, config, size: neighbourhood_pool(graph, size=size, seed=config.seed),
    settings=("seed",),
)
