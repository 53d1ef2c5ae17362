"""Laplacian positional encoding, section 4.1 (8 dimensions, concatenated to the features)."""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh

from fedgt_client.graph import Graph

# Below this size a dense solver is faster, and always converges.
_DENSE = 512


def laplacian_encoding(graph: Graph, dimensions: int = 8) -> NDArray[np.float32]:
    """Return eigenvectors of I − D^-1/2 A D^-1/2 with the smallest non-trivial eigenvalues.

    Each connected component is encoded on its own: over a disconnected graph the first
    eigenvectors would only say which component a node is in. A component of s nodes has s − 1
    non-trivial eigenvectors; what it lacks stays zero. Vectors are scaled to unit mean square, so
    that an encoding means the same at institutions of any size, and their sign is fixed.

    Returns
    -------
    encoding : shape (n, dimensions)
    """
    n = graph.num_nodes
    encoding = np.zeros((n, dimensions), np.float32)
    adjacency = sparse.csr_array(
        (np.ones(len(graph.indices)), graph.indices, graph.indptr), shape=(n, n)
    )
    adjacency = adjacency.maximum(adjacency.T)
    _, component = connected_components(adjacency, directed=False)
    for members in _groups(component):
        if len(members) > 1 and dimensions:
            vectors = _component_encoding(adjacency[members][:, members], dimensions)
            encoding[members, : vectors.shape[1]] = vectors
    return encoding


def _component_encoding(adjacency: sparse.csr_array, dimensions: int) -> NDArray[np.float64]:
    """Encode one connected component, shape (s, min(dimensions, s − 1))."""
    size = adjacency.shape[0]
    count = min(dimensions, size - 1)
    scale = sparse.diags_array(1.0 / np.sqrt(adjacency.sum(axis=1)))
    # The largest eigenvalues of the normalised adjacency are the Laplacian's smallest.
    normalised = scale @ adjacency @ scale
    if size <= _DENSE or count + 1 >= size:
        _, vectors = linalg.eigh(normalised.toarray(), subset_by_index=[size - count - 1, size - 1])
        vectors = vectors[:, ::-1]
    else:
        start = np.random.default_rng(0).standard_normal(size)
        values, vectors = eigsh(normalised, k=count + 1, which="LA", v0=start, tol=1e-6)
        vectors = vectors[:, np.argsort(-values)]
    vectors = vectors[:, 1:] * np.sqrt(size)
    largest = np.abs(vectors).argmax(axis=0)
    signs = np.sign(vectors[largest, np.arange(count)])
    return np.asarray(vectors * signs)


def _groups(component: NDArray[np.int32]) -> list[NDArray[np.int64]]:
    """Return the members of each component."""
    order = np.argsort(component, kind="stable")
    return np.split(order, np.cumsum(np.bincount(component))[:-1])
