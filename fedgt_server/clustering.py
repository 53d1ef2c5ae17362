"""Clusters of clients by the course of their gradients: dynamic time warping and minimum cuts."""

import numpy as np

from fedgt_server.transport import Floats


def warping_distances(series: Floats) -> Floats:
    """Return the dynamic time warping distance of every two series, shape (M, T) to (M, M).

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
    """Split clients into the two sides with the least similarity between them.

    The minimum cut of the complete graph (Stoer & Wagner 1997). The result depends on nothing but
    the values: of several minimum cuts, the one that the algorithm meets first is returned, with
    vertices taken in the order of their indices. The first side is the one that it cut off.

    Parameters
    ----------
    similarity : shape (M, M), symmetric, not negative, M at least 2
    """
    import networkx  # only one method needs it, and it takes long to import

    clients = len(similarity)
    graph = networkx.Graph()
    # Pairs of similarity 0 too: the algorithm asks for a connected graph.
    graph.add_weighted_edges_from(
        (i, j, float(similarity[i, j])) for i in range(clients) for j in range(i + 1, clients)
    )
    _, (cut_off, rest) = networkx.stoer_wagner(graph)
    return sorted(cut_off), sorted(rest)
