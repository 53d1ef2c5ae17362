"""Probabilities that can be believed, and a threshold to act by, both chosen on validation nodes.

A trained model is usually too sure of itself. Dividing its scores by one number, the temperature,
corrects that and changes no prediction (Guo et al. 2017, section 4.2). Class weights in training
make rare classes look more probable than they are; their logarithms are taken out of the scores
before. With two classes of which one is rare, a threshold on its probability says when to act.
"""

import math
from typing import Annotated, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from torch.nn import functional

from shared.errors import FedGTError
from shared.files import Array

# Beyond this the validation nodes are all right or wrong: no temperature fits.
_COLDEST, _HOTTEST = 0.05, 20.0
_LARGEST_OFFSET = 100.0  # e^100 training nodes are more than there are
# Deviation of ln(temperature) around 0 before any node is seen: with a handful of validation nodes
# the temperature stays near 1, with a hundred this does not matter.
_PRIOR = 0.5


class Threshold(BaseModel):
    """When to predict the positive one of two classes."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    positive: str
    value: float = Field(ge=0, le=1)  # predicted where its probability is at least this
    rule: Literal["recall", "cost-ratio"]
    wanted: float  # the recall, or the cost of a missed one in costs of a false alarm


class Calibration(BaseModel):
    """How scores become probabilities and predictions."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    temperature: float = Field(default=1.0, ge=_COLDEST, le=_HOTTEST)
    # What class weights added to the score of each class, ln w; empty: nothing.
    offsets: tuple[Annotated[float, Field(ge=-_LARGEST_OFFSET, le=_LARGEST_OFFSET)], ...] = ()
    threshold: Threshold | None = None

    def probabilities(self, scores: Array) -> NDArray[np.float64]:
        """Return softmax((scores − offsets) / temperature), shape (k, classes)."""
        return softmax(scores - np.array(self.offsets or 0.0), self.temperature)

    def predict(self, scores: Array, class_names: tuple[str, ...]) -> NDArray[np.int64]:
        """Return the predicted class of each row, shape (k,).

        Without a threshold it is the one of the largest score, as in training: with class weights
        not always the most probable one.
        """
        if self.threshold is None:
            return np.asarray(scores.argmax(axis=1))
        positive = class_names.index(self.threshold.positive)
        likely = self.probabilities(scores)[:, positive] >= self.threshold.value
        return np.where(likely, positive, 1 - positive)


def softmax(scores: Array, temperature: float = 1.0) -> NDArray[np.float64]:
    """Return softmax(scores / temperature) in double precision, shape (k, classes)."""
    shifted = scores.astype(np.float64) / temperature
    shifted = np.exp(shifted - shifted.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def weight_offsets(train_counts: tuple[int, ...]) -> tuple[float, ...]:
    """Return what balanced class weights add to the scores: ln w, but for a constant.

    A class weighs 1 / its training nodes. One without any is not in the loss: its score stays.
    """
    return tuple(-math.log(count / sum(train_counts)) if count else 0.0 for count in train_counts)


def fit_temperature(scores: Array, labels: NDArray[np.int64]) -> float:
    """Return the temperature of least log loss, near 1 with few nodes; 1 without any.

    Parameters
    ----------
    scores : shape (k, classes), of validation nodes
    labels : shape (k,)
    """
    if not len(labels):
        return 1.0
    logits = torch.from_numpy(scores.astype(np.float64))
    targets = torch.from_numpy(labels.astype(np.int64))
    log_temperature = torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([log_temperature], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        value = functional.cross_entropy(logits / log_temperature.exp(), targets)
        value = value + log_temperature**2 / (2 * _PRIOR**2 * len(targets))
        value.backward()
        return value

    optimiser.step(loss)
    found = math.exp(float(log_temperature.detach()))
    return min(max(found, _COLDEST), _HOTTEST) if math.isfinite(found) else 1.0


def threshold_for_recall(
    probability: NDArray[np.float64], positive: NDArray[np.bool_], recall: float
) -> float:
    """Return the largest threshold at which the share ``recall`` of positive nodes is found.

    ``probability`` is that of the positive class; both have shape (k,).
    """
    found = np.sort(probability[positive])[::-1]
    if not len(found):
        raise FedGTError("no validation node is of the positive class: no threshold can be chosen")
    return float(found[math.ceil(recall * len(found)) - 1])


def threshold_for_cost(
    probability: NDArray[np.float64], positive: NDArray[np.bool_], cost_ratio: float
) -> float:
    """Return the threshold of least cost: 1 for a false alarm, ``cost_ratio`` for a missed one.

    Of several the largest, which raises the fewest alarms; 1 where no alarm is worth its cost.
    """
    if not positive.any():
        raise FedGTError("no validation node is of the positive class: no threshold can be chosen")
    order = np.argsort(-probability, kind="stable")
    sorted_probability, hits = probability[order], positive[order]
    # With the threshold at place i, nodes 0…i raise an alarm; equal probabilities do together.
    cost = np.cumsum(~hits) + cost_ratio * (hits.sum() - np.cumsum(hits))
    last_of_equals = np.append(np.diff(sorted_probability) != 0, True)
    places = np.flatnonzero(last_of_equals)
    best = places[cost[places].argmin()]
    if cost[best] >= cost_ratio * hits.sum():
        return 1.0
    return float(sorted_probability[best])


def choose_threshold(
    probabilities: NDArray[np.float64],
    labels: NDArray[np.int64],
    class_names: tuple[str, ...],
    *,
    positive: str,
    rule: Literal["recall", "cost-ratio"],
    wanted: float,
) -> Threshold:
    """Choose the threshold of a two-class problem on validation nodes, shape (k, 2) and (k,)."""
    if len(class_names) != 2:
        raise FedGTError(f"a threshold needs two classes, there are {len(class_names)}")
    if positive not in class_names:
        there = ", ".join(class_names)
        raise FedGTError(f"the positive class is '{positive}', expected one of: {there}")
    if rule == "recall" and not 0 < wanted <= 1:
        raise FedGTError(f"the wanted recall is {wanted:g}, expected above 0 and up to 1")
    if rule == "cost-ratio" and not (wanted > 0 and math.isfinite(wanted)):
        raise FedGTError(f"the cost ratio is {wanted:g}, expected a number above 0")
    index = class_names.index(positive)
    choose = threshold_for_recall if rule == "recall" else threshold_for_cost
    value = choose(probabilities[:, index], labels == index, wanted)
    return Threshold(positive=positive, value=value, rule=rule, wanted=wanted)
