"""Connected components, and the small ones as stacks of dense matrices."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fedgt_client.graph import Graph

_MAX_ENTRIES = 2**22  # of a stack: 32 MB of float64


def adjacency_matrix(graph: Graph) -> sparse.csr_array:
    """Return the matrix with a 1 for each stored arc, shape (n, n)."""
    ones = np.ones(len(graph.indices), np.float32)
    return sparse.csr_array(
        (ones, graph.indices, graph.indptr), shape=(graph.num_nodes, graph.num_nodes)
    )


def weight_matrix(graph: Graph) -> sparse.csr_array:
    """Return the matrix with the weight of each stored arc, 1 where it has none, shape (n, n)."""
    matrix = adjacency_matrix(graph)
    if graph.weights is not None:
        matrix.data = graph.weights.astype(np.float64)
    return matrix


@dataclass(frozen=True)
class Components:
    """A graph with its nodes in the order of their components, links taken without direction."""

    # shape: (n, n), positive weights; rows and columns in the order of ``nodes``
    adjacency: sparse.csr_array
    nodes: NDArray[np.int64]  # shape: (n,), ids, ascending within a component
    starts: NDArray[np.int64]  # shape: (components + 1,), positions in ``nodes``

    @classmethod
    def of(cls, adjacency: sparse.csr_array) -> Self:
        """Find the components of a graph."""
        count, label = connected_components(adjacency, directed=True, connection="weak")
        nodes = np.argsort(label, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(label, minlength=count))])
        if count > 1:
            adjacency = sparse.csr_array(adjacency[nodes][:, nodes])
            adjacency.sort_indices()
        return cls(adjacency, nodes, starts)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Return the number of nodes of each component."""
        return np.diff(self.starts)

    def nodes_up_to(self, largest: int) -> int:
        """Return the number of nodes in components of 2 to ``largest`` nodes."""
        return int(self.sizes[(self.sizes > 1) & (self.sizes <= largest)].sum())

    def dense(self, largest: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Yield components of 2 to ``largest`` nodes, those of equal size together.

        Yields
        ------
        nodes : shape (b, s)
        adjacency : shape (b, s, s)
        """
        sizes = self.sizes
        for size in np.unique(sizes[(sizes > 1) & (sizes <= largest)]):
            starts = self.starts[:-1][sizes == size]
            at_once = max(1, _MAX_ENTRIES // int(size) ** 2)
            for first in range(0, len(starts), at_once):
                places = starts[first : first + at_once, None] + np.arange(size)
                yield self.nodes[places], self._stack(places)

    def above(self, size: int) -> "Components":
        """Return the components with more nodes than ``size``."""
        kept = self.sizes > size
        if kept.all():
            return self
        places = np.flatnonzero(np.repeat(kept, self.sizes))
        starts = np.concatenate([[0], np.cumsum(self.sizes[kept])])
        adjacency = sparse.csr_array(self.adjacency[places][:, places])
        return Components(adjacency, self.nodes[places], starts)

    def each(self) -> Iterator[tuple[NDArray[np.int64], sparse.csr_array]]:
        """Yield nodes, shape (s,), and adjacency, shape (s, s), of one component after another."""
        for start, stop in zip(self.starts[:-1], self.starts[1:], strict=True):
            rows = self.adjacency[start:stop]
            shape = (stop - start, stop - start)
            yield (
                self.nodes[start:stop],
                sparse.csr_array((rows.data, rows.indices - start, rows.indptr), shape=shape),
            )

    def _stack(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        count, size = places.shape
        rows = self.adjacency[places.ravel()]
        row = np.repeat(np.arange(count * size), np.diff(rows.indptr))
        matrices = np.zeros((count, size, size))
        matrices[row // size, row % size, rows.indices - places[row // size, 0]] = rows.data
        return matrices
