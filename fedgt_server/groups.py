"""Groups of institutions that want different things, found in what each has asked for so far."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from fedgt_server.transport import Floats, unit_rows

# Groups of fewer institutions are not told from chance; nor are more groups looked for.
_SMALLEST_GROUP, _MOST_GROUPS = 2, 8
# Share of a direction, or of several, that is one institution's: then it is no group's. Of an
# institution in a group of two it is a half.
_ALONE = 0.7
_MANY = 1000  # institutions, above which only the first directions are computed


class Gap(NamedTuple):
    """Ratios of squared singular values by which groups are found, and below which they are lost.

    The second is smaller, so that what is found is not lost again by chance.
    """

    found: float
    lost: float


def group_similarity(asked: Floats, gap: Gap, *, before: bool = False) -> Floats | None:
    """Return how far institutions agree on what to learn, shape (M, M); None without groups.

    What all have in common, their mean, is subtracted. Institutions that want the same share a
    direction then, and the directions of groups stand out from those that each institution has
    for itself: between groups and the rest there is a gap in the spectrum. Cosines are taken in
    the directions of groups alone.

    One who always asks for the same, or for something else than all others, is a direction by
    itself, and is left out: no single institution makes groups of the others, or hides them. All
    count the same in the mean, however long their vectors are or how often they answered.

    Parameters
    ----------
    asked : a vector for each institution, shape (M, d); one of zeros is in no group
    before : whether there were groups in the round before
    """
    ratio = gap.lost if before else gap.found
    unit, taken = unit_rows(asked), np.asarray(asked.any(axis=1))
    while taken.any():
        directions = group_directions(unit[taken] - unit[taken].mean(axis=0), ratio)
        if directions is None:
            return None
        shares = ((directions / np.linalg.norm(directions, axis=0)) ** 2).sum(axis=1)
        if shares.max() < _ALONE:
            return _similarity(directions, taken)
        taken[np.flatnonzero(taken)[shares >= _ALONE]] = False
    return None


def _similarity(directions: Floats, taken: NDArray[np.bool_]) -> Floats:
    """Return cosines in the directions of groups; who was not taken is like itself alone."""
    places = np.zeros((len(taken), directions.shape[1]))
    places[taken] = unit_rows(directions)
    similarity = places @ places.T
    np.fill_diagonal(similarity, 1.0)
    return similarity


def group_directions(vectors: Floats, gap: float) -> Floats | None:
    """Return the places of M vectors in the directions of groups, (M, d) to (M, k); None: none.

    The first k squared singular values are those of groups if the next one is smaller by the
    factor ``gap``; of several such k, that with the largest.
    """
    count = len(vectors)
    most = min(_MOST_GROUPS - 1, count // _SMALLEST_GROUP)
    if most < 1 or count < 2 * _SMALLEST_GROUP:
        return None
    if count <= _MANY:  # of the products, which are few: vectors are long
        squares, left = np.linalg.eigh(vectors @ vectors.T)
        squares = np.maximum(squares, 0.0)
    else:
        left, values, _ = svds(vectors, k=most + 1, random_state=0)
        squares = values**2
    # The largest first.
    squares, left = squares[: -most - 2 : -1], left[:, : -most - 2 : -1]
    gaps = squares[:-1] / np.maximum(squares[1:], 1e-12 * max(squares[0], 1e-12))
    k = int(np.argmax(gaps)) + 1
    return np.asarray(left[:, :k] * np.sqrt(squares[:k])) if gaps[k - 1] >= gap else None
