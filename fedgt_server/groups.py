"""Groups of institutions that want different things, found in what each has asked for so far."""

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import svds

from fedgt_server.transport import Floats, unit_rows

# Groups of fewer institutions are not told from chance; nor are more groups looked for.
_SMALLEST_GROUP, _MOST_GROUPS = 2, 8
_MANY = 1000  # institutions, above which only the first directions are computed


class Gap(NamedTuple):
    """Ratios of squared singular values by which groups are found, and below which they are lost.

    What is found stays more easily: what institutions learn later in a run is less and less of
    what sets their groups apart.
    """

    found: float
    lost: float


def group_similarity(asked: Floats, gap: Gap, *, before: bool = False) -> Floats | None:
    """Return how far institutions agree on what to learn, shape (M, M); None without groups.

    What all have in common, their mean, is subtracted. Institutions that want the same share a
    direction then, and the directions of groups stand out from those that each institution has
    for itself: between groups and the rest there is a gap in the spectrum. Cosines are taken in
    the directions of groups alone.

    Parameters
    ----------
    asked : a vector for each institution, shape (M, d); of one that has not answered yet, zeros
    before : whether there were groups in the round before
    """
    ratio = gap.lost if before else gap.found
    places = group_directions(unit_rows(asked - asked.mean(axis=0)), ratio)
    if places is None:
        return None
    unit = unit_rows(places)
    return np.asarray(unit @ unit.T)


def group_directions(vectors: Floats, gap: float) -> Floats | None:
    """Return the places of M vectors in the directions of groups, (M, d) to (M, k); None: none.

    The first k squared singular values are those of groups if the next one is smaller by the
    factor ``gap``; of several such k, that with the largest.
    """
    count = len(vectors)
    most = min(_MOST_GROUPS - 1, count // _SMALLEST_GROUP)
    if most < 1 or count < 2 * _SMALLEST_GROUP:
        return None
    if count <= _MANY:
        left, values, _ = np.linalg.svd(vectors, full_matrices=False)
    else:
        left, values, _ = svds(vectors, k=most + 1, random_state=0)
        left, values = left[:, ::-1], values[::-1]
    squares = values[: most + 1] ** 2
    gaps = squares[:-1] / np.maximum(squares[1:], 1e-12 * max(squares[0], 1e-12))
    k = int(np.argmax(gaps)) + 1
    return np.asarray(left[:, :k] * values[:k]) if gaps[k - 1] >= gap else None
