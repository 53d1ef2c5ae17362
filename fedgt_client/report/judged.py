"""A model on nodes with known classes: who is taken for whom, how sure it is, what it finds."""

import numpy as np
from numpy.typing import NDArray

from fedgt_client.report.view import Reliability, ThresholdCurve

_BINS = 10
_STEPS = 50  # of thresholds


def confusion(
    predicted: NDArray[np.int64], labels: NDArray[np.int64], classes: int
) -> list[list[int]]:
    """Return how many nodes of each class (rows) were predicted as each (columns)."""
    counted = np.bincount(labels * classes + predicted, minlength=classes * classes)
    rows: list[list[int]] = counted.reshape(classes, classes).tolist()
    return rows


def reliability(probabilities: NDArray[np.float64], labels: NDArray[np.int64]) -> Reliability:
    """Return mean confidence and share of right predictions, in ten bins of confidence.

    Parameters
    ----------
    probabilities : shape (k, classes)
    labels : shape (k,)
    """
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    filled = [bins == one for one in range(_BINS) if (bins == one).any()]
    return Reliability(
        confidence=[round(float(confidence[chosen].mean()), 4) for chosen in filled],
        right=[round(float(right[chosen].mean()), 4) for chosen in filled],
        nodes=[int(chosen.sum()) for chosen in filled],
    )


def threshold_curve(
    probability: NDArray[np.float64],
    is_positive: NDArray[np.bool_],
    positive: str,
    chosen: float | None,
) -> ThresholdCurve:
    """Return precision, recall and share of alarms over thresholds from 0 to 1; shapes (k,)."""
    thresholds = np.arange(_STEPS + 1) / _STEPS
    alarms = probability[None, :] >= thresholds[:, None]
    hits = (alarms & is_positive).sum(axis=1)
    found, wanted = alarms.sum(axis=1), int(is_positive.sum())
    return ThresholdCurve(
        positive=positive,
        share=float(is_positive.mean()),
        thresholds=thresholds.tolist(),
        precision=[
            round(int(hit) / int(all_), 4) if all_ else None
            for hit, all_ in zip(hits, found, strict=True)
        ],
        recall=[round(int(hit) / wanted, 4) if wanted else None for hit in hits],
        alarms=[round(int(all_) / len(probability), 4) for all_ in found],
        chosen=chosen,
    )
