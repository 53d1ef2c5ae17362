"""What institutions learn, as short vectors: count sketches of their updates so far."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

# Of a sketch. Cosines of sketches are those of the updates to about 1 / √WIDTH.
WIDTH = 4096
_SEED = 0

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


def stacked(sketches: Mapping[str, Sketch], institutions: Sequence[str]) -> NDArray[np.float32]:
    """Return the sketches of these institutions, shape (M, WIDTH); zeros where there is none."""
    nothing = np.zeros(WIDTH, np.float32)
    return np.stack([sketches.get(name, nothing) for name in institutions])
