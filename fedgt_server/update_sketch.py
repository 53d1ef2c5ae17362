"""What institutions learn, as short vectors: count sketches of their updates so far."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from scipy.sparse.linalg import svds

from fedgt_server.robust import cosines
from fedgt_server.transport import Floats, unit_rows

# Of a sketch. Cosines of sketches are those of the updates to about 1 / √WIDTH.
WIDTH = 4096
_SEED = 0
# Groups of fewer institutions are not told from chance; nor are more groups looked for.
_SMALLEST_GROUP, _MOST_GROUPS = 2, 8
# Ratio of squared singular values by which groups are found, and below which they are lost again:
# what institutions learn later in a run is less and less of what sets their groups apart. Measured
# after 12 and 40 rounds: 1.1 and 1.2 on Cora and CiteSeer; 1.6 and 1.4 where two groups of banks
# disagree on labels; 1.6 and 1.3 with two kinds of banks.
_GAP, _LOST = 1.5, 1.1
_MANY = 1000  # institutions, above which only the first directions are computed


Sketch = NDArray[np.float32]  # shape: (WIDTH,)


class CountSketch:
    """A random projection to ``WIDTH`` values that keeps inner products (Charikar et al. 2002).

    Every parameter is added to one of the values with a random sign, the same for all
    institutions. Inner products stay as they are in expectation, at a hundredth of the memory.
    """

    def __init__(self, parameters: int) -> None:
        generator = np.random.default_rng(_SEED)
        place = generator.integers(WIDTH, size=parameters, dtype=np.int16).astype(np.int32)
        sign = (2 * generator.integers(2, size=parameters, dtype=np.int8) - 1).astype(np.float32)
        starts = np.arange(parameters + 1, dtype=np.int32)
        self._sums = csc_array((sign, place, starts), (WIDTH, parameters))

    def of(self, vector: NDArray[np.float32]) -> Sketch:
        """Return the sketch of a vector, shape (P,)."""
        return np.asarray(self._sums @ vector, np.float32)


class UpdateSketch:
    """Sums up the updates of every institution, each as a count sketch."""

    def __init__(self, parameters: int) -> None:
        self._sketch = CountSketch(parameters)
        self.sums: dict[str, Sketch] = {}  # by institution
        self._round: dict[str, Sketch] = {}  # of the round under way

    def receive(self, institution: str, change: NDArray[np.float32]) -> None:
        """Take an update Δθ_i of this round, shape (P,); another one replaces it."""
        self._round[institution] = self._sketch.of(change)

    def scale(self, institution: str, factor: float) -> None:
        """Take a part of an institution's update of this round; with 0, nothing of it."""
        if (found := self._round.pop(institution, None)) is not None and factor:
            self._round[institution] = found * np.float32(factor)

    def end_round(self) -> None:
        """Add the round's updates to the sums."""
        for name, sketch in sorted(self._round.items()):
            # All count the same: once groups have models of their own, they agree with them, and
            # only what was before tells of the groups.
            self.sums[name] = self.sums.get(name, np.zeros_like(sketch)) + sketch
        self._round = {}

    def similarity(self, institutions: list[str], *, before: bool = False) -> Floats | None:
        """Return how far institutions agree on what to learn, shape (M, M); None without groups.

        Those that were found ``before`` are lost less easily.

        What all updates have in common, their mean, is subtracted. Institutions that want the
        same share a direction then, and the directions of groups stand out from those that each
        institution has for itself: between groups and the rest there is a gap in the spectrum.
        Cosines are taken in the directions of groups alone.
        """
        sums = self._stacked(institutions)
        gap = _LOST if before else _GAP
        places = group_directions(unit_rows(sums - sums.mean(axis=0)), gap)
        if places is None:
            return None
        unit = unit_rows(places)
        return np.asarray(unit @ unit.T)

    def cosines(self, institutions: list[str]) -> Floats:
        """Return the cosines of all updates so far, as they are, shape (M, M)."""
        sums = self._stacked(institutions)
        return cosines(sums @ sums.T)

    def _stacked(self, institutions: list[str]) -> Floats:
        nothing = np.zeros(WIDTH, np.float32)
        sums = np.stack([self.sums.get(name, nothing) for name in institutions])
        return sums.astype(np.float64)


def group_directions(vectors: Floats, gap: float = _GAP) -> Floats | None:
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
