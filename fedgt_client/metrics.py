"""Metrics of class probabilities, by scikit-learn; they are computed at the institution.

Where a metric is of one class against all others (ROC-AUC, average precision), the figure for all
classes is the plain mean over those classes that have both members and others. So the positive
class of a two-class problem need not be named; its own figure is among those of the classes.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    f1_score,
    log_loss,
    precision_recall_fscore_support,
    roc_auc_score,
)

Probabilities = NDArray[np.float64]  # shape: (k, classes), rows sum to 1
Labels = NDArray[np.int64]  # shape: (k,)

_BINS = 15
_SCORES = ("accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "average-precision", "log-loss")


@dataclass(frozen=True)
class ClassMetrics:
    """Metrics of one class against all others; None where they are not defined."""

    name: str
    nodes: int
    precision: float
    recall: float
    f1: float
    roc_auc: float | None
    average_precision: float | None


@dataclass(frozen=True)
class Metrics:
    """Metrics of some nodes; None where they are not defined."""

    nodes: int
    majority_share: float  # accuracy of always naming the largest class
    accuracy: float
    balanced_accuracy: float
    macro_f1: float
    roc_auc: float | None
    average_precision: float | None
    log_loss: float
    calibration_error: float
    classes: tuple[ClassMetrics, ...]


def measure(
    probabilities: Probabilities,
    labels: Labels,
    class_names: Sequence[str],
    predicted: Labels | None = None,
) -> Metrics:
    """Return all metrics of k ≥ 1 labelled nodes; ``predicted`` where a threshold decides."""
    if predicted is None:
        predicted = probabilities.argmax(axis=1)
    return Metrics(
        nodes=len(labels),
        majority_share=float(np.bincount(labels).max() / len(labels)),
        accuracy=float((predicted == labels).mean()),
        balanced_accuracy=_balanced_accuracy(predicted, labels),
        macro_f1=_macro_f1(predicted, labels),
        roc_auc=_defined(_over_classes(roc_auc_score, probabilities, labels)),
        average_precision=_defined(_over_classes(average_precision_score, probabilities, labels)),
        log_loss=_log_loss(probabilities, labels),
        calibration_error=calibration_error(probabilities, labels),
        classes=_per_class(probabilities, labels, predicted, class_names),
    )


def score(
    name: str, probabilities: Probabilities, labels: Labels, predicted: Labels | None = None
) -> float:
    """Return one metric by the name that ``select-by`` has for it; NaN where it is not defined."""
    if not len(labels):
        return math.nan
    decided = probabilities.argmax(axis=1) if predicted is None else predicted
    measures: dict[str, Callable[[], float]] = {
        "accuracy": lambda: float((decided == labels).mean()),
        "balanced-accuracy": lambda: _balanced_accuracy(decided, labels),
        "macro-f1": lambda: _macro_f1(decided, labels),
        "roc-auc": lambda: _over_classes(roc_auc_score, probabilities, labels),
        "average-precision": lambda: _over_classes(average_precision_score, probabilities, labels),
        "log-loss": lambda: _log_loss(probabilities, labels),
        "calibration-error": lambda: calibration_error(probabilities, labels),
    }
    return measures[name]()


def calibration_error(probabilities: Probabilities, labels: Labels, bins: int = _BINS) -> float:
    """Return the expected calibration error (Guo et al. 2017, equation 3).

    Nodes are put into ``bins`` intervals (a, b] of equal width by the probability of their
    predicted class; the error is the mean, over nodes, of |accuracy − mean probability| of their
    interval.
    """
    confidence = probabilities.max(axis=1)
    correct = probabilities.argmax(axis=1) == labels
    place = np.clip(np.ceil(confidence * bins).astype(np.int64) - 1, 0, bins - 1)
    gaps = np.bincount(place, correct - confidence, minlength=bins)
    return float(np.abs(gaps).sum() / len(labels))


def intervals(
    probabilities: Probabilities,
    labels: Labels,
    predicted: Labels | None = None,
    *,
    resamples: int,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """Return 95 % bootstrap intervals of the metrics over all classes, by their names.

    Nodes are drawn with replacement, ``resamples`` times. Nodes of a graph are not independent:
    the intervals are a lower bound of the uncertainty. The calibration error has none: it is
    biased upwards, and more so in a sample with repetitions.
    """
    rng = np.random.default_rng(seed)
    draws = [rng.integers(0, len(labels), len(labels)) for _ in range(resamples)]
    found: dict[str, tuple[float, float]] = {}
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for name in _SCORES:
            values = [
                score(
                    name,
                    probabilities[rows],
                    labels[rows],
                    None if predicted is None else predicted[rows],
                )
                for rows in draws
            ]
            defined = [value for value in values if not math.isnan(value)]
            if defined:
                low, high = np.quantile(defined, [0.025, 0.975])
                found[name.replace("-", "_")] = (float(low), float(high))
    return found


def _per_class(
    probabilities: Probabilities, labels: Labels, predicted: Labels, class_names: Sequence[str]
) -> tuple[ClassMetrics, ...]:
    precision, recall, f1, support = precision_recall_fscore_support(
        labels, predicted, labels=range(len(class_names)), zero_division=0
    )
    return tuple(
        ClassMetrics(
            name=name,
            nodes=int(support[c]),
            precision=float(precision[c]),
            recall=float(recall[c]),
            f1=float(f1[c]),
            roc_auc=_one_class(roc_auc_score, probabilities, labels, c),
            average_precision=_one_class(average_precision_score, probabilities, labels, c),
        )
        for c, name in enumerate(class_names)
    )


def _one_class(
    metric: Callable[..., float], probabilities: Probabilities, labels: Labels, c: int
) -> float | None:
    members = labels == c
    if members.all() or not members.any():
        return None
    return float(metric(members, probabilities[:, c]))


def _over_classes(
    metric: Callable[..., float], probabilities: Probabilities, labels: Labels
) -> float:
    found = [_one_class(metric, probabilities, labels, c) for c in range(probabilities.shape[1])]
    values = [value for value in found if value is not None]
    return sum(values) / len(values) if values else math.nan


def _balanced_accuracy(predicted: Labels, labels: Labels) -> float:
    """Return the mean recall over the classes that occur."""
    with warnings.catch_warnings():
        # Of predicted classes that do not occur among the labels.
        warnings.simplefilter("ignore", UserWarning)
        return float(balanced_accuracy_score(labels, predicted))


def _macro_f1(predicted: Labels, labels: Labels) -> float:
    return float(f1_score(labels, predicted, average="macro", zero_division=0))


def _log_loss(probabilities: Probabilities, labels: Labels) -> float:
    classes = probabilities.shape[1]
    return float(log_loss(labels, probabilities, labels=range(classes))) if classes > 1 else 0.0


def _defined(value: float) -> float | None:
    return None if math.isnan(value) else value
