"""Forward push for personalised PageRank (Andersen, Chung, Lang 2006), compiled with numba.

State of a walk, shape (n, 4), a record for each node so that a link costs one access to memory:
residual r, estimate p, degree d (see ``_degrees``), and π, where in its component a long walk is
found.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgt_client.csr import row_positions
from fedgt_client.preprocess.compiled import compiled, for_all_nodes
from fedgt_client.preprocess.components import Components
from fedgt_client.preprocess.locality import local_order
from fedgt_client.preprocess.progress import Progress
from fedgt_client.preprocess.strongest import (
    DEGREE,
    ESTIMATE,
    RESIDUAL,
    STATIONARY,
    refine,
    strongest,
)
from fedgt_client.preprocess.top_k import Pool

# What a link with a negligible weight carries is dropped before it is rounded to zero.
_NOTHING = np.float32(1e-20)


def push_pool(
    components: Components,
    probabilities: NDArray[np.float32] | None,
    stationary: NDArray[np.float32],
    nu: float,
    tolerance: float,
    pool: Pool,
    *,
    directed: bool,
) -> None:
    """Fill the rows of ``pool`` that belong to the nodes of ``components``, on all cores.

    Parameters
    ----------
    probabilities : shape (m,), of following each arc; None: all arcs of a node alike
    stationary : shape (n,), where a long walk is found
    pool : both of shape (number of all nodes, size), prefilled with -1 and 0
    directed : whether links lead one way
    """
    n = len(components.nodes)
    order = local_order(components.adjacency.indptr, components.adjacency.indices)
    indptr, places = row_positions(components.adjacency.indptr, order)
    position = np.empty(n, np.int32)
    position[order] = np.arange(n, dtype=np.int32)
    indices = position[components.adjacency.indices[places]]
    if probabilities is not None:
        probabilities = probabilities[places]
    ids = components.nodes[order].astype(np.int32)
    records = np.zeros((n, 4), np.float32)
    records[:, DEGREE] = _degrees(indptr, probabilities)
    records[:, STATIONARY] = stationary[order]
    # Without weights no walk needs more, see `_push`.
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
            probabilities,
            ids,
            rate,
            threshold,
            max_links,
            directed,
            state,
            queue,
            reached,
            neighbours,
            weights,
        )

    for_all_nodes(push_chunk, n, workspace, Progress("PPR", n))


def _degrees(
    indptr: NDArray[np.int64], probabilities: NDArray[np.float32] | None
) -> NDArray[np.float64]:
    """Return the number of links of each node, at least 1, shape (n,).

    Where links have weights, the geometric mean of it and of 1 / Σ probability², the number of
    links that matter: by the first alone a walk would stop early on the heavy links of a node
    with many, by the second it costs several times as much as without weights.
    """
    links = np.maximum(np.diff(indptr), 1).astype(np.float64)
    if probabilities is None:
        return links
    rows = np.repeat(np.arange(len(links)), np.diff(indptr))
    squares = np.bincount(rows, np.square(probabilities, dtype=np.float64), len(links))
    return np.sqrt(links / np.where(squares > 0, squares, 1.0))


@compiled
def _push_nodes(
    start: int,
    stop: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    probabilities: NDArray[np.float32] | None,
    ids: NDArray[np.int32],
    nu: Any,
    tolerance: Any,
    max_links: int,
    directed: bool,
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
    best, scores = np.empty(size, np.int32), np.empty(size, np.float32)
    for source in range(start, stop):
        count = _push(
            state, indptr, indices, probabilities, source, queue, reached, nu, tolerance, max_links
        )
        found = strongest(state, reached, count, source, ids, nu, best, scores)
        if not directed:  # it follows links back
            refine(
                state,
                reached,
                count,
                indptr,
                indices,
                probabilities,
                ids,
                nu,
                best,
                scores,
                found,
            )
        row = ids[source]
        for place in range(found):
            neighbours[row, place] = ids[best[place]]
            weights[row, place] = scores[place]
        for place in range(count):
            state[reached[place], RESIDUAL] = 0.0
            state[reached[place], ESTIMATE] = 0.0


@compiled
def _push(
    state: NDArray[np.float32],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    probabilities: NDArray[np.float32] | None,
    source: int,
    queue: NDArray[np.int32],
    reached: NDArray[np.int32],
    nu: Any,
    tolerance: Any,
    max_links: int,
) -> int:
    """Start a walk at ``source`` and push residuals above ``tolerance`` · degree along the links.

    In the order in which they arise. A push at v turns ν r(v) > ν · tolerance · degree(v) into
    estimate, at the cost of degree(v) links, and all estimates sum to 1 at
    most: after 1 / (ν · tolerance) links nothing is left to push, whatever the hubs (with
    weights, whose degrees are smaller, perhaps a little). A node is in the queue if and only if its
    residual is above its threshold, so that n places are enough.

    Returns
    -------
    count : nodes reached
    """
    state[source, RESIDUAL] = 1.0
    queue[0] = reached[0] = source
    head, waiting, count, links, places = 0, 1, 1, 0, len(queue)
    while waiting and links < max_links:
        node = queue[head]
        head = head + 1 if head + 1 < places else 0
        waiting -= 1
        residual = state[node, RESIDUAL]
        state[node, RESIDUAL] = 0.0
        state[node, ESTIMATE] += nu * residual
        begin, end = indptr[node], indptr[node + 1]
        links += end - begin
        leaving = (np.float32(1.0) - nu) * residual
        share = leaving / np.float32(end - begin)
        for place in range(begin, end):
            other = indices[place]
            if probabilities is not None:  # decided when compiled, not here
                share = leaving * probabilities[place]
                if share < _NOTHING:
                    continue
            before = state[other, RESIDUAL]
            after = before + share
            state[other, RESIDUAL] = after
            threshold = tolerance * state[other, DEGREE]
            if before <= threshold < after:
                tail = head + waiting
                queue[tail if tail < places else tail - places] = other
                waiting += 1
            if before == 0.0 and state[other, ESTIMATE] == 0.0:
                reached[count] = other
                count += 1
    return count
