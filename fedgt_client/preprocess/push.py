"""Forward push for personalised PageRank (Andersen, Chung, Lang 2006), compiled with numba.

State of a walk, shape (n, 4), a record for each node so that a link costs one access to memory:
residual r, estimate p, degree d, and the node's share π of its component's links, which is where
a long walk is found.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedgt_client.preprocess.compiled import compiled, for_all_nodes
from fedgt_client.preprocess.components import Components
from fedgt_client.preprocess.locality import local_order
from fedgt_client.preprocess.progress import Progress
from fedgt_client.preprocess.top_k import Pool

_RESIDUAL, _ESTIMATE, _DEGREE, _STATIONARY = 0, 1, 2, 3

# A walk is continued with a third of the tolerance where what is left of it may be more than this
# share of the strongest candidates' values: dense neighbourhoods, in which all values are small.
_UNCERTAIN = 0.2
_FINER = 1 / 3


def push_pool(
    components: Components,
    stationary: NDArray[np.float32] | None,
    nu: float,
    tolerance: float,
    pool: Pool,
) -> None:
    """Fill the rows of ``pool`` that belong to the nodes of ``components``, on all cores.

    Parameters
    ----------
    stationary : shape (n,), where a long walk is found; None: not known, as in directed graphs
    pool : both of shape (number of all nodes, size), prefilled with -1 and 0
    """
    n = len(components.nodes)
    order = local_order(components.adjacency.indptr, components.adjacency.indices)
    indptr, indices = _reordered(components.adjacency, order)
    ids = components.nodes[order].astype(np.int32)
    records = np.zeros((n, 4), np.float32)
    records[:, _DEGREE] = np.maximum(np.diff(indptr), 1)
    if stationary is not None:
        records[:, _STATIONARY] = stationary[order]
    # The first pass needs no more, see `_push`: only a second one is ever cut short.
    max_links = int(min(max(1 / (nu * tolerance), 1), 2**62))
    rate, threshold = np.float32(nu), np.float32(tolerance)
    neighbours, weights = pool

    def workspace() -> tuple[Any, ...]:
        return records.copy(), np.zeros(n, np.int32), np.zeros(n, np.int32)

    def push_chunk(start: int, stop: int, state: Any, queue: Any, reached: Any) -> None:
        _push_nodes(
            start,
            stop,
            indptr,
            indices,
            ids,
            rate,
            threshold,
            max_links,
            state,
            queue,
            reached,
            neighbours,
            weights,
        )

    for_all_nodes(push_chunk, n, workspace, Progress("PPR", n))


def _reordered(
    adjacency: csr_array, order: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return CSR indptr and indices of the links with node ``order[i]`` renamed to i."""
    degrees = np.diff(adjacency.indptr)[order]
    indptr = np.zeros(len(order) + 1, np.int64)
    np.cumsum(degrees, out=indptr[1:])
    places = np.arange(indptr[-1]) + np.repeat(adjacency.indptr[order] - indptr[:-1], degrees)
    position = np.empty(len(order), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    return indptr, position[adjacency.indices[places]]


@compiled
def _push_nodes(
    start: int,
    stop: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    ids: NDArray[np.int32],
    nu: Any,
    tolerance: Any,
    max_links: int,
    state: NDArray[np.float32],
    queue: NDArray[np.int32],
    reached: NDArray[np.int32],
    neighbours: NDArray[np.int32],
    weights: NDArray[np.float32],
) -> None:
    """Fill the rows of nodes start..stop − 1 of ``neighbours`` and ``weights``, shape (n, size).

    ``ids`` holds the nodes' ids; everything else names them by their position in it.
    """
    size = neighbours.shape[1]
    few = max(size // 4, 1)  # as many as are drawn from the pool
    best, scores = np.empty(size, np.int32), np.empty(size, np.float32)
    for source in range(start, stop):
        state[source, _RESIDUAL] = 1.0
        queue[0] = reached[0] = source
        count, links = _push(
            state, indptr, indices, queue, 1, reached, 1, nu, tolerance, 0, max_links
        )
        found, uncertain = _strongest(state, reached, count, source, ids, nu, best, scores, few)
        if uncertain > _UNCERTAIN and links < max_links:
            finer = np.float32(_FINER) * tolerance
            waiting = 0
            for place in range(count):
                node = reached[place]
                if state[node, _RESIDUAL] > finer * state[node, _DEGREE]:
                    queue[waiting] = node
                    waiting += 1
            count, _ = _push(
                state, indptr, indices, queue, waiting, reached, count, nu, finer, links, max_links
            )
            found, _ = _strongest(state, reached, count, source, ids, nu, best, scores, few)
        row = ids[source]
        for place in range(found):
            neighbours[row, place] = ids[best[place]]
            weights[row, place] = scores[place]
        for place in range(count):
            state[reached[place], _RESIDUAL] = 0.0
            state[reached[place], _ESTIMATE] = 0.0


@compiled
def _push(
    state: NDArray[np.float32],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    queue: NDArray[np.int32],
    waiting: int,
    reached: NDArray[np.int32],
    count: int,
    nu: Any,
    tolerance: Any,
    links: int,
    max_links: int,
) -> tuple[int, int]:
    """Push residuals above ``tolerance`` · degree along the links, in the order they arise.

    A push at v turns ν r(v) > ν · tolerance · degree(v) into estimate, at the cost of degree(v)
    links, and all estimates sum to 1 at most: after 1 / (ν · tolerance) links nothing is left to
    push, whatever the hubs. A node is in the queue if and only if its residual is above its
    threshold, so that n places are enough.

    Returns
    -------
    count, links : nodes reached and links followed, including those passed in
    """
    head, places = 0, len(queue)
    while waiting and links < max_links:
        node = queue[head]
        head = head + 1 if head + 1 < places else 0
        waiting -= 1
        residual = state[node, _RESIDUAL]
        state[node, _RESIDUAL] = 0.0
        state[node, _ESTIMATE] += nu * residual
        begin, end = indptr[node], indptr[node + 1]
        links += end - begin
        share = (np.float32(1.0) - nu) * residual / np.float32(end - begin)
        for place in range(begin, end):
            other = indices[place]
            before = state[other, _RESIDUAL]
            after = before + share
            state[other, _RESIDUAL] = after
            threshold = tolerance * state[other, _DEGREE]
            if before <= threshold < after:
                tail = head + waiting
                queue[tail if tail < places else tail - places] = other
                waiting += 1
            if before == 0.0 and state[other, _ESTIMATE] == 0.0:
                reached[count] = other
                count += 1
    return count, links


@compiled
def _strongest(
    state: NDArray[np.float32],
    reached: NDArray[np.int32],
    count: int,
    source: int,
    ids: NDArray[np.int32],
    nu: Any,
    best: NDArray[np.int32],
    scores: NDArray[np.float32],
    few: int,
) -> tuple[int, float]:
    """Find the reached nodes with the largest values, best first; equal ones by their id.

    PPR is p + Σ_u r(u) · PPR of u. Of a residual r(u) a part ν stays at u; the rest is taken to
    spread as a long walk would: value(v) = p(v) + ν r(v) + (1 − ν) Σr · π(v).

    Returns
    -------
    found : number of candidates in ``best`` and ``scores``
    uncertain : what is left, if it all stayed among the reached nodes, as a share of the value of
        the ``few`` strongest
    """
    left, volume = np.float32(0.0), np.float32(0.0)
    for place in range(count):
        left += state[reached[place], _RESIDUAL]
        volume += state[reached[place], _DEGREE]
    left *= np.float32(1.0) - nu
    found, size = 0, len(best)
    for place in range(count):
        node = reached[place]
        score = (
            state[node, _ESTIMATE] + nu * state[node, _RESIDUAL] + left * state[node, _STATIONARY]
        )
        if node == source or (found == size and score < scores[0]):
            continue
        if found < size:
            found += 1
            _sift_up(best, scores, ids, found - 1, node, score)
        elif _before(score, ids[node], scores[0], ids[best[0]]):
            _sift_down(best, scores, ids, size, node, score)
    for last in range(found - 1, 0, -1):  # heap sort: the weakest of those left moves to the end
        node, score = best[last], scores[last]
        best[last], scores[last] = best[0], scores[0]
        _sift_down(best, scores, ids, last, node, score)
    degrees, values = np.float32(0.0), np.float32(0.0)
    for place in range(min(few, found)):
        degrees += state[best[place], _DEGREE]
        values += scores[place]
    return found, left * degrees / volume / values if found else 0.0


@compiled
def _before(score: float, node: int, other_score: float, other: int) -> bool:
    """Return whether one candidate comes before another."""
    return score > other_score or (score == other_score and node < other)


@compiled
def _sift_up(
    best: NDArray[np.int32],
    scores: NDArray[np.float32],
    ids: NDArray[np.int32],
    place: int,
    node: int,
    score: float,
) -> None:
    """Add a candidate at the end of a heap whose first is the weakest."""
    while place > 0:
        parent = (place - 1) // 2
        if not _before(scores[parent], ids[best[parent]], score, ids[node]):
            break
        best[place], scores[place] = best[parent], scores[parent]
        place = parent
    best[place], scores[place] = node, score


@compiled
def _sift_down(
    best: NDArray[np.int32],
    scores: NDArray[np.float32],
    ids: NDArray[np.int32],
    size: int,
    node: int,
    score: float,
) -> None:
    """Put a candidate in the place of the weakest, the first of the heap."""
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        right = child + 1
        if right < size and _before(
            scores[child], ids[best[child]], scores[right], ids[best[right]]
        ):
            child = right
        if not _before(score, ids[node], scores[child], ids[best[child]]):
            break
        best[place], scores[place] = best[child], scores[child]
        place = child
    best[place], scores[place] = node, score
