"""The top-k candidates of every node, from a score between nodes."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

# Neighbours (n, size), largest weight first, and their weights (n, size).
# Rows are padded with -1; the padding has weight 0.
Pool = tuple[NDArray[np.int32], NDArray[np.float32]]

# Nodes scored together: bounds memory, keeps the sparse products large.
_BLOCK = 2048


def top_k(
    score: Callable[[NDArray[np.int64]], sparse.csr_array],
    num_nodes: int,
    size: int,
    *,
    block: int = _BLOCK,
) -> Pool:
    """Return the ``size`` largest positive scores of every node, the node itself excluded.

    ``score`` maps some nodes to their scores with all nodes, shape (len(nodes), num_nodes).
    """
    neighbours = np.full((num_nodes, size), -1, np.int32)
    weights = np.zeros((num_nodes, size), np.float32)
    for start in range(0, num_nodes, block):
        nodes = np.arange(start, min(start + block, num_nodes))
        scores = score(nodes)
        rows = np.repeat(np.arange(len(nodes)), np.diff(scores.indptr))
        kept = (scores.indices != nodes[rows]) & (scores.data > 0)
        rows, columns, values = rows[kept], scores.indices[kept], scores.data[kept]
        # Equal scores in the order of node ids, so that the result does not depend on the block.
        order = np.lexsort((columns, -values, rows))
        rows, columns, values = rows[order], columns[order], values[order]
        counts = np.bincount(rows, minlength=len(nodes))
        rank = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        top = rank < size
        neighbours[nodes[rows[top]], rank[top]] = columns[top]
        weights[nodes[rows[top]], rank[top]] = values[top]
    return neighbours, weights
