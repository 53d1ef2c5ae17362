"""Laplacian positional encoding, section 4.1 (8 dimensions, concatenated to the features)."""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from fedgt_client.graph import Graph
from fedgt_client.preprocess.components import Components, adjacency_matrix
from fedgt_client.preprocess.eigenvectors import largest_eigenvectors
from fedgt_client.preprocess.progress import Progress

# Below this size a dense solver is faster, and always converges.
_DENSE = 512
# Below this size it is faster to compute all eigenvectors, of many components in one call.
_STACKED = 64


def laplacian_encoding(graph: Graph, dimensions: int = 8) -> NDArray[np.float32]:
    """Return eigenvectors of I − D^-1/2 A D^-1/2 with the smallest non-trivial eigenvalues.

    Each connected component is encoded on its own: over a disconnected graph the first
    eigenvectors would only say which component a node is in. A component of s nodes has s − 1
    non-trivial eigenvectors; what it lacks stays zero. Vectors are scaled to unit mean square, so
    that an encoding means the same at institutions of any size, and their sign is fixed.

    All links count alike, whatever their weights: with heavy-tailed ones (amounts) the leading
    eigenvectors would each single out two nodes with a heavy link, and say nothing of the others.

    Returns
    -------
    encoding : shape (n, dimensions)
    """
    encoding = np.zeros((graph.num_nodes, dimensions), np.float32)
    if not dimensions:
        return encoding
    adjacency = adjacency_matrix(graph)
    components = Components.of(adjacency.maximum(adjacency.T) if graph.directed else adjacency)
    step = "positional encoding of small components"
    progress = Progress(step, components.nodes_up_to(_DENSE))
    for nodes, matrices in components.dense(_DENSE):
        vectors = _dense_vectors(matrices, min(dimensions, nodes.shape[1] - 1) + 1)
        encoding[nodes, : vectors.shape[2] - 1] = _scaled(vectors)
        progress.advance(nodes.size)
    for nodes, matrix in components.above(_DENSE).each():
        count = min(dimensions, len(nodes) - 2) + 1
        vectors = largest_eigenvectors(_normalised(matrix), count)
        encoding[nodes, : count - 1] = _scaled(vectors)
    return encoding


def _normalised(adjacency: sparse.csr_array) -> sparse.csr_array:
    """Return D^-1/2 A D^-1/2: its largest eigenvalues are the Laplacian's smallest; (s, s)."""
    scale = 1.0 / np.sqrt(np.diff(adjacency.indptr))
    rows = np.repeat(scale, np.diff(adjacency.indptr))
    return sparse.csr_array(
        (rows * scale[adjacency.indices], adjacency.indices, adjacency.indptr),
        shape=adjacency.shape,
    )


def _dense_vectors(adjacency: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return the eigenvectors of the largest eigenvalues, in descending order, (b, s, count)."""
    size = adjacency.shape[1]
    scale = 1.0 / np.sqrt(adjacency.sum(axis=2))
    normalised = scale[:, :, None] * adjacency * scale[:, None, :]
    if size <= _STACKED:
        return np.linalg.eigh(normalised)[1][:, :, : -count - 1 : -1]
    wanted = [size - count, size - 1]
    vectors = [linalg.eigh(matrix, subset_by_index=wanted)[1] for matrix in normalised]
    return np.stack(vectors)[:, :, ::-1]


def _scaled(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Drop the first, trivial vector; scale to unit mean square, the largest entry positive.

    Shape (…, s, count) to (…, s, count − 1).
    """
    vectors = vectors[..., 1:] * np.sqrt(vectors.shape[-2])
    largest = np.abs(vectors).argmax(axis=-2, keepdims=True)
    return vectors * np.sign(np.take_along_axis(vectors, largest, axis=-2))
