"""The strongest candidates of a walk that was pushed: chosen, their values estimated."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgt_client.preprocess.compiled import compiled

# Columns of the state of a walk, see ``push``.
RESIDUAL, ESTIMATE, DEGREE, STATIONARY = 0, 1, 2, 3

# Links of a candidate that are looked at: of a hub with more, every second, third, … one. Where
# links have weights, one that is left out could be the one that matters: all of them, or none.
_MOST_LINKS, _MOST_WEIGHTED = 128, 2048
# Not divided by: weights of links may differ by more than float32 can express.
_NOTHING = np.float32(1e-20)
# Of what is left after two further steps, the share taken to be where the first of them led, as in
# a community that is hardly ever left; the rest is taken to be everywhere.
_LOCAL = np.float32(0.5)


@compiled
def strongest(
    state: NDArray[np.float32],
    reached: NDArray[np.int32],
    count: int,
    source: int,
    ids: NDArray[np.int32],
    nu: Any,
    best: NDArray[np.int32],
    scores: NDArray[np.float32],
) -> int:
    """Find the reached nodes with the largest values, best first; equal ones by their id.

    PPR is p + Σ_u r(u) · PPR of u. Of a residual r(u) a part ν stays at u; the rest is taken to
    spread as a long walk would: value(v) = p(v) + ν r(v) + (1 − ν) Σr · π(v).

    Returns
    -------
    found : number of candidates in ``best`` and ``scores``
    """
    left = np.float32(0.0)
    for place in range(count):
        left += state[reached[place], RESIDUAL]
    left *= np.float32(1.0) - nu
    found, size = 0, len(best)
    for place in range(count):
        node = reached[place]
        score = state[node, ESTIMATE] + nu * state[node, RESIDUAL] + left * state[node, STATIONARY]
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
    return found


@compiled
def refine(
    state: NDArray[np.float32],
    reached: NDArray[np.int32],
    count: int,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    probabilities: NDArray[np.float32] | None,
    ids: NDArray[np.int32],
    nu: Any,
    best: NDArray[np.int32],
    scores: NDArray[np.float32],
    found: int,
) -> None:
    """Follow what is left one step further, to the candidates alone, and sort them anew.

    Residuals lie between 0 and their thresholds: noise, beside which the values of candidates in
    dense neighbourhoods hardly differ. What comes to v from its neighbours u in a step,
    c(v) = Σ_u r(u) · probability(u → v), averages it out, at the cost of v's links. Links lead both
    ways here, so that π(u) · probability(u → v) = π(v) · probability(v → u). Then
    value(v) = p(v) + ν r(v) + (1 − ν) ν c(v) + (1 − ν)² · rest(v), with a rest between c(v) and
    Σr · π(v).
    """
    left = np.float32(0.0)
    for place in range(count):
        left += state[reached[place], RESIDUAL]
    stay = np.float32(1.0) - nu
    for place in range(found):
        node = best[place]
        begin, end = indptr[node], indptr[node + 1]
        step = (end - begin + _MOST_LINKS - 1) // _MOST_LINKS
        if probabilities is not None:
            step = 1
            if end - begin > _MOST_WEIGHTED:
                end = begin
        total, weight = np.float32(0.0), np.float32(0.0)
        for link in range(begin, end, step):
            other = indices[link]
            probability = np.float32(1.0)
            if probabilities is not None:  # decided when compiled, not here
                probability = probabilities[link]
            weight += probability
            share = state[other, STATIONARY]
            if share > _NOTHING:
                total += probability * state[other, RESIDUAL] / share
        own = state[node, STATIONARY]
        coming = own * (total / weight if weight > 0 else left)
        rest = _LOCAL * coming + (np.float32(1.0) - _LOCAL) * left * own
        scores[place] = (
            state[node, ESTIMATE] + nu * state[node, RESIDUAL] + stay * (nu * coming + stay * rest)
        )
    _sort(best, scores, ids, found)


@compiled
def _sort(
    best: NDArray[np.int32], scores: NDArray[np.float32], ids: NDArray[np.int32], found: int
) -> None:
    """Sort candidates that are nearly sorted, best first."""
    for last in range(1, found):
        node, score, place = best[last], scores[last], last
        while place > 0 and _before(score, ids[node], scores[place - 1], ids[best[place - 1]]):
            best[place], scores[place] = best[place - 1], scores[place - 1]
            place -= 1
        best[place], scores[place] = node, score


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
