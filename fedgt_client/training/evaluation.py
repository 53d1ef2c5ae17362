"""Accuracy on the validation and test nodes, what it is worth, and what chooses the best round."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.training.task import LearningTask
from shared.wire import selection_metric


def evaluate(task: LearningTask, select_by: str = "accuracy") -> dict[str, float]:
    """Measure validation and test accuracy, and ``select_by`` on validation nodes.

    Beside each accuracy stand the share of the largest class, which a model that has learned
    nothing reaches, and the mean recall over classes. NaN for a split without nodes.
    """
    nodes = evaluated_nodes(task.graph)
    return measure(task.graph, task.predict(nodes), select_by)


def evaluated_nodes(graph: GraphTensors) -> Tensor:
    """Return the validation nodes, then the test nodes."""
    # No other nodes: some models compute each node by itself.
    return torch.cat([graph.splits["val"], graph.splits["test"]])


def measure(graph: GraphTensors, scores: Tensor, select_by: str = "accuracy") -> dict[str, float]:
    """Return what ``evaluate`` does from the scores of ``evaluated_nodes``, shape (k, classes)."""
    val, labels = graph.splits["val"], graph.labels[evaluated_nodes(graph)]
    parts = {
        "val": (scores[: len(val)], labels[: len(val)]),
        "test": (scores[len(val) :], labels[len(val) :]),
    }
    found = {}
    for split, (of_split, true) in parts.items():
        found[f"{split}_accuracy"] = accuracy(of_split, true)
        found[f"{split}_majority_share"] = majority_share(true)
        found[f"{split}_balanced_accuracy"] = balanced_accuracy(of_split, true)
    if select_by != "accuracy":
        measured = measured_by(select_by, scores[: len(val)], labels[: len(val)])
        found[selection_metric(select_by)] = measured
    return found


@torch.no_grad()
def validation_losses(graph: GraphTensors, scores: Tensor) -> Tensor:
    """Return the cross entropy of every validation node, from the scores of ``measure``."""
    val = graph.splits["val"]
    if not len(val):
        return torch.empty(0)
    return functional.cross_entropy(scores[: len(val)].float(), graph.labels[val], reduction="none")


def measured_by(select_by: str, scores: Tensor, labels: Tensor) -> float:
    """Return one metric, shapes as of ``accuracy``."""
    if select_by == "accuracy":
        return accuracy(scores, labels)
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


def majority_share(labels: Tensor) -> float:
    """Return the share of the largest class; NaN without nodes."""
    if not len(labels):
        return math.nan
    return float(torch.bincount(labels).max() / len(labels))


def balanced_accuracy(scores: Tensor, labels: Tensor) -> float:
    """Return the mean recall over the classes that occur; shapes as of ``accuracy``."""
    if not len(labels):
        return math.nan
    right = (scores.argmax(dim=1) == labels).double()
    nodes = torch.bincount(labels)
    recalled = torch.bincount(labels, weights=right)
    return float((recalled[nodes > 0] / nodes[nodes > 0]).mean())
