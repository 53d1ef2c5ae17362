"""How clearly a similarity matrix shows which institutions belong together."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shared.data.partition import SAMPLES_PER_PART

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Contrast:
    """Mean similarities of pairs of different institutions."""

    within: float  # of the same METIS part
    between: float  # of different ones
    spread: float  # standard deviation over all pairs

    @property
    def difference(self) -> float:
        """Within less between: 0 where nothing shows."""
        return self.within - self.between

    @property
    def relative(self) -> float:
        """The difference in standard deviations, which no scale of similarities changes."""
        return self.difference / self.spread if self.spread > 0 else 0.0


def contrast(similarity: ArrayLike, size: int = SAMPLES_PER_PART) -> Contrast:
    """Compare blocks of ``size`` institutions, in their order, shape (M, M)."""
    matrix = np.asarray(similarity, np.float64)
    part = np.arange(len(matrix)) // size
    same = part[:, None] == part[None, :]
    different = ~np.eye(len(matrix), dtype=np.bool_)
    within, between = matrix[same & different], matrix[~same]
    return Contrast(float(within.mean()), float(between.mean()), float(matrix[different].std()))


def label_similarity(counts: ArrayLike) -> Floats:
    """Cosine similarity of label distributions, counts of shape (M, classes)."""
    shares = np.asarray(counts, np.float64)
    norms = np.linalg.norm(shares, axis=1, keepdims=True)
    units = shares / np.where(norms > 0, norms, 1.0)
    return np.asarray(units @ units.T, np.float64)


def normalised(similarity: ArrayLike, tau: float) -> Floats:
    """α of equation 8: a softmax over each row, shape (M, M)."""
    scores = tau * np.asarray(similarity, np.float64)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float64)
