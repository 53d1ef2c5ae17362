"""Predictions by two models: how far each counts, chosen on validation nodes."""

import math

import torch
from torch import Tensor

from fedgt_client.training.evaluation import measured_by
from shared.wire import smaller_is_better

# Of the second model: the first alone, the mean of both, the second alone.
WEIGHTS = (0.0, 0.5, 1.0)


def best_weight(
    select_by: str, one: Tensor, other: Tensor, labels: Tensor, *, first: float
) -> float:
    """Return the weight of ``other`` that is best; of equal ones ``first``, or else the smallest.

    Parameters
    ----------
    one, other : scores of validation nodes, shape (k, classes)
    labels : shape (k,)
    """
    weights = sorted(WEIGHTS, key=lambda weight: weight != first)
    found = [measured_by(select_by, mixed(one, other, weight), labels) for weight in weights]
    if not all(math.isfinite(value) for value in found):
        return first
    best = min if smaller_is_better(select_by) else max
    return weights[found.index(best(found))]


def mixed(one: Tensor, other: Tensor, weight: float) -> Tensor:
    """Return logarithms of the mixed probabilities, shapes (k, classes)."""
    logs = one.log_softmax(dim=1), other.log_softmax(dim=1)
    if weight in (0.0, 1.0):
        return logs[int(weight)]
    shares = torch.tensor([1.0 - weight, weight], device=other.device).log()
    return torch.logsumexp(torch.stack(logs) + shares[:, None, None], dim=0)
