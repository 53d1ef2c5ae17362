"""Accuracy on the validation and test nodes."""

import math

import torch
from torch import Tensor

from fedgt_client.training.task import LearningTask


def evaluate(task: LearningTask) -> dict[str, float]:
    """Measure validation and test accuracy; NaN for a split without nodes."""
    val, test = task.graph.splits["val"], task.graph.splits["test"]
    # No other nodes: some models compute each node by itself.
    nodes = torch.cat([val, test])
    scores, labels = task.predict(nodes), task.graph.labels[nodes]
    return {
        "val_accuracy": accuracy(scores[: len(val)], labels[: len(val)]),
        "test_accuracy": accuracy(scores[len(val) :], labels[len(val) :]),
    }


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
