"""An order of nodes in which linked nodes are near each other in memory, compiled with numba."""

import numpy as np
from numpy.typing import NDArray

from fedgt_client.preprocess.compiled import compiled

_HUB = 200  # links
_SWEEPS = 3


def local_order(indptr: NDArray[np.int32], indices: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return node ids, hubs first, then community by community, shape (n,).

    Communities are found by a few sweeps of label propagation. The order has no influence on
    results: it saves waiting for memory where a graph does not fit into the processor's cache.
    """
    labels = _communities(indptr, indices)
    labels[np.diff(indptr) > _HUB] = -1
    return np.argsort(labels, kind="stable")


@compiled
def _communities(indptr: NDArray[np.int32], indices: NDArray[np.int32]) -> NDArray[np.int32]:
    """Give each node, in turn, the label most common among its neighbours that are no hubs."""
    n = len(indptr) - 1
    labels = np.arange(n).astype(np.int32)
    votes = np.zeros(n, np.int32)
    for _ in range(_SWEEPS):
        for node in range(n):
            begin, end = indptr[node], indptr[node + 1]
            if end - begin > _HUB:
                continue
            winner, most = labels[node], 0
            for place in range(begin, end):
                other = indices[place]
                if indptr[other + 1] - indptr[other] <= _HUB:
                    label = labels[other]
                    votes[label] += 1
                    if votes[label] > most:
                        winner, most = label, votes[label]
            for place in range(begin, end):
                votes[labels[indices[place]]] = 0
            labels[node] = winner
    return labels
