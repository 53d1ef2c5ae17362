"""Matrices of institutions in one byte a value, and an order that puts similar ones together."""

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage, optimal_leaf_ordering
from scipy.spatial.distance import squareform

Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]

_LEVELS = 254  # codes 1 to 255; 0 says that there is no value


def similarity_codes(similarity: Floats) -> Codes:
    """Return S in [−1, 1] as 1 + 127 (S + 1), NaN as 0; same shape."""
    return _codes((np.clip(similarity, -1.0, 1.0) + 1.0) / 2.0)


def weight_codes(weights: Floats) -> Codes:
    """Return α in [0, 1] as 1 + 254 √α, NaN as 0; same shape.

    By the root, because with many institutions most weights are small.
    """
    return _codes(np.sqrt(np.clip(weights, 0.0, 1.0)))


def upper_triangle(matrix: Codes) -> Codes:
    """Return the values above the diagonal by rows, shape (M·(M−1)/2,)."""
    return matrix[np.triu_indices(len(matrix), k=1)]


def to_base64(codes: Codes) -> str:
    """Return bytes as text."""
    return base64.b64encode(codes.tobytes()).decode("ascii")


def cluster_order(similarity: Floats) -> list[int]:
    """Return an order of institutions in which similar ones are neighbours.

    Leaves of an average-linkage tree of the distances 1 − S, ordered so that the distances of
    neighbours are smallest. Unknown similarities count as 0. Shape: (M, M), symmetric.
    """
    count = len(similarity)
    if count < 3:
        return list(range(count))
    known = np.nan_to_num((similarity + similarity.T) / 2.0, nan=0.0)
    distances = np.maximum(1.0 - known, 0.0)
    np.fill_diagonal(distances, 0.0)
    condensed = squareform(distances, checks=False)
    tree = optimal_leaf_ordering(linkage(condensed, "average"), condensed)
    return [int(leaf) for leaf in leaves_list(tree)]


def placed(
    matrix: Sequence[Sequence[float | None]], names: Sequence[str], index: dict[str, int]
) -> Floats:
    """Return a matrix with rows and columns moved to ``index``, NaN elsewhere, shape (M, M)."""
    found = np.full((len(index), len(index)), np.nan)
    known = [k for k, name in enumerate(names) if name in index]
    places = [index[names[k]] for k in known]
    values = np.array(
        [[np.nan if value is None else value for value in row] for row in matrix], np.float64
    )
    if values.shape == (len(names), len(names)) and known:
        found[np.ix_(places, places)] = values[np.ix_(known, known)]
    return found


def thinned(rounds: Sequence[int], limit: int, keep: int) -> list[int]:
    """Return about ``limit`` of the rounds at most: evenly spread, with first, last, ``keep``."""
    if len(rounds) <= limit:
        return list(rounds)
    places = np.linspace(0, len(rounds) - 1, max(limit, 2)).round().astype(int)
    return sorted({rounds[place] for place in places} | ({keep} & set(rounds)))


def _codes(shares: Floats) -> Codes:
    known = np.where(np.isnan(shares), 0.0, np.round(1 + _LEVELS * np.nan_to_num(shares)))
    return known.astype(np.uint8)
