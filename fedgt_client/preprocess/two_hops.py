"""Random samples of the nodes at most two links away, compiled with numba."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgt_client.graph import Graph
from fedgt_client.preprocess.compiled import compiled, for_all_nodes
from fedgt_client.preprocess.progress import Progress

# Paths of two links from a node that are listed in full, for each pair of candidates; where there
# are more, paths are drawn.
_PATHS_PER_PAIR = 2


def two_hop_sample(graph: Graph, *, size: int, seed: int) -> NDArray[np.int32]:
    """Return ``size`` random nodes for each node, direct neighbours first, padded with -1.

    Shape (n, size). Among neighbours, and among nodes two links away, all are equally likely. The
    result depends on the seed alone, not on the number of cores.
    """
    n = graph.num_nodes
    neighbours = np.full((n, size), -1, np.int32)

    def workspace() -> tuple[Any, ...]:
        # Nodes with fewer than `size` links need a sample of those two links away. Where there
        # are more paths than this, it is a sample of more than twice as many nodes.
        return np.full(n, -1, np.int32), np.empty(_PATHS_PER_PAIR * size * size, np.int32)

    def sample_chunk(start: int, stop: int, seen: Any, listed: Any) -> None:
        first = np.uint64(seed % 2**64)
        _sample_nodes(start, stop, graph.indptr, graph.indices, first, seen, listed, neighbours)

    for_all_nodes(sample_chunk, n, workspace, Progress("GraphSAGE pool", n))
    return neighbours


@compiled
def _mixed(value: Any) -> Any:
    """Return 64 bits, each of which depends on all bits of ``value`` (see ``_random``)."""
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@compiled
def _random(state: NDArray[np.uint64], below: int) -> Any:
    """Return a random number of 0..below − 1 (SplitMix64, Steele, Lea, Flood 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    return np.int64(_mixed(state[0]) % np.uint64(below))


@compiled
def _sample_nodes(
    start: int,
    stop: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    seed: Any,
    seen: NDArray[np.int32],
    listed: NDArray[np.int32],
    neighbours: NDArray[np.int32],
) -> None:
    """Fill rows start..stop − 1 of ``neighbours``, shape (n, size).

    ``seen[v]``, shape (n,), is the last node for which v was taken.
    """
    size = neighbours.shape[1]
    state = np.empty(1, np.uint64)
    for node in range(start, stop):
        # Mixed, as streams that start near each other overlap.
        state[0] = _mixed(_mixed(seed) + np.uint64(node + 1))
        row = neighbours[node]
        direct = indices[indptr[node] : indptr[node + 1]]
        taken = _reservoir(direct, state, row)
        if taken == size:
            continue
        seen[node] = node
        paths = 0
        for other in direct:
            seen[other] = node
            paths += indptr[other + 1] - indptr[other]
        if paths <= len(listed):
            count = _list(direct, indptr, indices, node, seen, listed)
            _reservoir(listed[:count], state, row[taken:])
        else:
            _draw(direct, indptr, indices, node, seen, state, row, taken, paths)


@compiled
def _reservoir(
    candidates: NDArray[np.int32], state: NDArray[np.uint64], chosen: NDArray[np.int32]
) -> int:
    """Fill ``chosen`` with random candidates in random order; return how many there are."""
    size, taken = len(chosen), 0
    for place in range(len(candidates)):
        if taken < size:
            other = _random(state, taken + 1)
            chosen[taken] = chosen[other]
            chosen[other] = candidates[place]
            taken += 1
        else:
            other = _random(state, place + 1)
            if other < size:
                chosen[other] = candidates[place]
    return taken


@compiled
def _list(
    direct: NDArray[np.int32],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    node: int,
    seen: NDArray[np.int32],
    listed: NDArray[np.int32],
) -> int:
    """List all nodes two links away; return how many there are."""
    count = 0
    for middle in direct:
        for place in range(indptr[middle], indptr[middle + 1]):
            end = indices[place]
            if seen[end] != node:
                seen[end] = node
                listed[count] = end
                count += 1
    return count


@compiled
def _draw(
    direct: NDArray[np.int32],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    node: int,
    seen: NDArray[np.int32],
    state: NDArray[np.uint64],
    row: NDArray[np.int32],
    taken: int,
    paths: int,
) -> None:
    """Draw paths of two links until the row is full.

    A node at the end of several paths counts only for the one through the first of its middle
    nodes, so that all nodes are equally likely. Of a hub's many paths no list is made.
    """
    for _ in range(64 * len(direct) * len(row)):
        draw = _random(state, paths)
        first = 0
        while draw >= indptr[direct[first] + 1] - indptr[direct[first]]:
            draw -= indptr[direct[first] + 1] - indptr[direct[first]]
            first += 1
        end = indices[indptr[direct[first]] + draw]
        if seen[end] == node:
            continue
        for earlier in range(first):
            middle = direct[earlier]
            links = indices[indptr[middle] : indptr[middle + 1]]
            place = np.searchsorted(links, end)
            if place < len(links) and links[place] == end:
                break
        else:
            seen[end] = node
            row[taken] = end
            taken += 1
            if taken == len(row):
                return
