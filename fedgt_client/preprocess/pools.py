"""Where local attention draws its nodes from: a weighted pool of candidates for every node.

The paper's three strategies (section 4.1, appendix "Influence of Node Sampling Strategies")
differ only in this pool; drawing from it is the same for all of them.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fedgt_client.graph import Graph, SparseRows
from fedgt_client.preprocess.ppr import personalised_pagerank
from fedgt_client.preprocess.top_k import Pool, top_k

_ATTRIBUTE_SCORES = 2**24  # held at a time


def build_pool(
    graph: Graph, sampler: str, *, size: int, nu: float, tolerance: float, seed: int
) -> Pool:
    """The pool of the sampler called ``ppr``, ``graphsage`` or ``attribute``."""
    builders: dict[str, Callable[[], Pool]] = {
        "ppr": lambda: personalised_pagerank(graph, nu=nu, tolerance=tolerance, size=size),
        "graphsage": lambda: neighbourhood_pool(graph, size=size, seed=seed),
        "attribute": lambda: attribute_pool(graph, size=size),
    }
    return builders[sampler]()


def neighbourhood_pool(graph: Graph, *, size: int, seed: int) -> Pool:
    """GraphSAGE, depth 2: nodes at most two links away, equally likely, nearer ones first.

    A neighbourhood larger than ``size`` is thinned at random, direct neighbours last.
    """
    n = graph.num_nodes
    rng = np.random.default_rng(seed)
    ones = np.ones(len(graph.indices))
    adjacency = sparse.csr_array((ones, graph.indices, graph.indptr), shape=(n, n))

    def score(nodes: NDArray[np.int64]) -> sparse.csr_array:
        direct = adjacency[nodes]
        reached = sparse.csr_array(((direct + direct @ adjacency) > 0).astype(float))
        # (0, 1) for two links, (1, 2) for one: nearer first, at random within.
        reached.data = rng.uniform(0.01, 0.99, len(reached.data))
        return reached + direct

    neighbours, _ = top_k(score, n, size)
    return neighbours, (neighbours >= 0).astype(np.float32)


def attribute_pool(graph: Graph, *, size: int) -> Pool:
    """Nodes whose features are most alike, with the cosine of their features as weight."""
    features = graph.features
    if isinstance(features, SparseRows):
        matrix = sparse.csr_array(
            (features.values, features.indices, features.indptr),
            shape=(graph.num_nodes, features.columns),
        )
    else:
        matrix = sparse.csr_array(features)
    norms = np.sqrt((matrix * matrix).sum(axis=1))
    unit = sparse.csr_array(sparse.diags_array(1.0 / np.maximum(norms, 1e-12)) @ matrix)
    # Nearly all pairs of nodes may have something in common: keep a block's scores bounded.
    block = max(1, min(2048, _ATTRIBUTE_SCORES // max(graph.num_nodes, 1)))
    return top_k(
        lambda nodes: sparse.csr_array(unit[nodes] @ unit.T), graph.num_nodes, size, block=block
    )
