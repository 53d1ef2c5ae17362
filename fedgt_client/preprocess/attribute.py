"""The attribute sampler: nodes with the most similar features."""

import numpy as np
from scipy import sparse

from fedgt_client.graph import Graph
from fedgt_client.preprocess.samplers import PoolBuilder
from fedgt_client.preprocess.top_k import Pool, top_k

_MAX_SCORES = 2**24  # in memory at a time


def attribute_pool(graph: Graph, *, size: int) -> Pool:
    """Return the nodes with the most similar features, weighted by the features' cosine.

    All pairs of nodes are compared: memory is bounded, but time grows with n², which is hours
    above some 100,000 nodes. The other samplers are linear.
    """
    matrix = sparse.csr_array(graph.features)
    norms = np.sqrt((matrix * matrix).sum(axis=1))
    unit = sparse.csr_array(sparse.diags_array(1.0 / np.maximum(norms, 1e-12)) @ matrix)
    # Nearly all pairs of nodes may have something in common: keep a block's scores bounded.
    block = max(1, min(2048, _MAX_SCORES // max(graph.num_nodes, 1)))
    return top_k(
        lambda nodes: sparse.csr_array(unit[nodes] @ unit.T), graph.num_nodes, size, block=block
    )


POOL_BUILDER = PoolBuilder(lambda graph, config, size: attribute_pool(graph, size=size))
