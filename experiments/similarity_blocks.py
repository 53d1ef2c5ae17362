"""How clearly a similarity matrix shows which institutions belong together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.job import Job
from fedgt_client.data.partition import SAMPLES_PER_PART
from fedgt_server.aggregation import softmax_weights

Floats = NDArray[np.float64]

_LABELS = "statistics"
# What is shown of which record; True: after an early round, as in the paper.
_HEATMAPS = (
    ("label distributions", _LABELS, False),
    ("FedGT", "fedgt", False),
    ("FedGT w/o optimal transport", "fedgt-no-ot", False),
    ("local updates, round 30", "fedgt-update", True),
)


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
    """Return the cosine similarity of label distributions, counts of shape (M, classes)."""
    shares = np.asarray(counts, np.float64)
    norms = np.linalg.norm(shares, axis=1, keepdims=True)
    units = shares / np.where(norms > 0, norms, 1.0)
    return np.asarray(units @ units.T, np.float64)


@dataclass(frozen=True)
class Heatmap:
    """Who is like whom, a matrix for each seed."""

    label: str
    similarity: tuple[Floats, ...]  # S, each of shape (M, M)
    shown: tuple[Floats, ...]  # α; of label distributions S itself


def heatmaps(records: Mapping[Job, Mapping[str, Any]]) -> list[Heatmap]:
    """Return all matrices that the paper shows, as far as they have been run."""
    found = []
    for label, row, early in _HEATMAPS:
        chosen = [
            records[job] for job in sorted(records, key=lambda job: job.seed) if job.row == row
        ]
        if row == _LABELS:
            cosines = tuple(label_similarity(record["labels"]) for record in chosen)
            found.append(Heatmap(label, cosines, cosines))
            continue
        pairs = [(similarity_of(record, early=early), record["config"]["tau"]) for record in chosen]
        known = [(matrix, tau) for matrix, tau in pairs if matrix is not None]
        weights = tuple(softmax_weights(matrix, tau) for matrix, tau in known)
        found.append(Heatmap(label, tuple(matrix for matrix, _ in known), weights))
    return found


def similarity_of(record: Mapping[str, Any], *, early: bool = False) -> Floats | None:
    """Return S after the last round, or after the early one where it was kept; shape (M, M)."""
    matrices = record["similarity"]["matrices"] if record.get("similarity") else {}
    numbers = sorted(matrices, key=int)
    return np.array(matrices[numbers[0 if early else -1]], np.float64) if numbers else None
