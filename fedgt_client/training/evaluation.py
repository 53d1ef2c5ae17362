"""Accuracy on the validation and test nodes, and the metric that chooses the best round."""

import math

import torch
from torch import Tensor

from fedgt_client.training.task import LearningTask
from shared.wire import selection_metric


def evaluate(task: LearningTask, select_by: str = "accuracy") -> dict[str, float]:
    """Measure validation and test accuracy, and ``select_by`` on validation nodes.

    NaN for a split without nodes.
    """
    val, test = task.graph.splits["val"], task.graph.splits["test"]
    # No other nodes: some models compute each node by itself.
    nodes = torch.cat([val, test])
    scores, labels = task.predict(nodes), task.graph.labels[nodes]
    found = {
        "val_accuracy": accuracy(scores[: len(val)], labels[: len(val)]),
        "test_accuracy": accuracy(scores[len(val) :], labels[len(val) :]),
    }
    if select_by != "accuracy":
        measured = _measure(select_by, scores[: len(val)], labels[: len(val)])
        found[selection_metric(select_by)] = measured
    return found


def _measure(select_by: str, scores: Tensor, labels: Tensor) -> float:
    """Return one metric, shapes as of ``accuracy``."""
    from fedgt_client.metrics import score  # takes a second to import: scikit-learn

    probabilities = torch.softmax(scores.double(), dim=1)
    return score(select_by, probabilities.cpu().numpy(), labels.cpu().numpy())


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Return the share of nodes classified correctly; NaN without nodes.

    Parameters
    ----------
    scores : shape (k, classes)
    labels : shape (k,)
    """
    if not len(labels):
        return math.nan
    return float((scores.argmax(dim=1) == labels).float().mean())
