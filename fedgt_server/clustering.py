"""Clusters of clients by the course of their gradients: dynamic time warping and minimum cuts."""

import numpy as np

from fedgt_server.transport import Floats


def warping_distances(series: Floats) -> Floats:
    """Dynamic time warping distance of every pair of series, shape (M, T) to (M, M).

    D(a, b) = min over monotone alignments of sqrt(Σ (a_s − b_t)²), by the recurrence
    c_st = (a_s − b_t)² + min(c_(s−1)t, c_s(t−1), c_(s−1)(t−1)), for all pairs at once.
    """
    clients, length = series.shape
    costs = (series[:, None, :, None] - series[None, :, None, :]) ** 2  # (M, M, T, T)
    best = np.full((clients, clients, length + 1, length + 1), np.inf)
    best[:, :, 0, 0] = 0.0
    for s in range(length):
        for t in range(length):
            before = np.minimum(best[:, :, s, t + 1], best[:, :, s + 1, t])
            best[:, :, s + 1, t + 1] = costs[:, :, s, t] + np.minimum(before, best[:, :, s, t])
    return np.asarray(np.sqrt(best[:, :, length, length]))


def minimum_cut(similarity: Floats) -> tuple[list[int], list[int]]:
    """The two sides between which the similarity is least (Stoer & Wagner 1997).

    Parameters
    ----------
    similarity : shape (M, M), symmetric, not negative, M at least 2
    """
    weights = similarity.astype(np.float64).copy()
    np.fill_diagonal(weights, 0.0)
    merged = [[index] for index in range(len(weights))]  # who stands behind each vertex
    alive = list(range(len(weights)))
    lightest, side = np.inf, [0]
    while len(alive) > 1:
        # Minimum cut phase: add the vertex most tightly connected to those added so far.
        order, tightness = [alive[0]], weights[alive[0]].copy()
        rest = set(alive[1:])
        while rest:
            following = max(sorted(rest), key=tightness.__getitem__)
            rest.remove(following)
            order.append(following)
            if rest:
                tightness += weights[following]
        last, before = order[-1], order[-2]
        if tightness[last] < lightest:
            lightest, side = float(tightness[last]), list(merged[last])
        merged[before] += merged[last]
        weights[before] += weights[last]
        weights[:, before] += weights[:, last]
        weights[before, before] = 0.0
        alive.remove(last)
    return sorted(side), sorted(set(range(len(similarity))) - set(side))
