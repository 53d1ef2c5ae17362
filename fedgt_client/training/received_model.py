"""Whether training from a received model left an institution worse off, on its own nodes.

It says so to the coordinator, who can send any model: with losses, that answer alone would count
the nodes of a class, a bit in each round. An institution that shares its accuracy in steps goes by
these steps, so that the answer tells nothing which they do not.
"""

import torch
from torch import Tensor

from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.training.evaluation import accuracy, validation_losses

# Fewer validation nodes say nothing.
_FEWEST = 10
# Standard errors of the mean difference that are put down to chance: models are compared on the
# same nodes.
_BY_CHANCE = 2.5
# Differences below this share of the own loss do not matter, however sure they are.
_TOLERATED = 0.15
# Rounds of its own that an institution compares with; only the last one would not notice a model
# that gets a little worse every round.
_REMEMBERED = 5
# Of a step, that an accuracy in steps must fall by: one step may be a single node.
_STEPS_WORSE = 1.5


def validated(graph: GraphTensors, scores: Tensor, step: float = 0.0) -> Tensor:
    """Return what models are compared by, from the scores of ``measure``.

    Shape (k,): the cross entropy of every validation node. With a ``step``, shape (1,): how many
    steps of accuracy are missing.
    """
    val = graph.splits["val"]
    if not step or not len(val):
        return validation_losses(graph, scores)
    found = accuracy(scores[: len(val)], graph.labels[val])
    return torch.tensor([round(1.0 / step) - float(round(found / step))])


def is_worse(now: Tensor, earlier: Tensor, step: float = 0.0) -> bool:
    """Return whether a model is worse on validation nodes than the best of the last rounds.

    Parameters
    ----------
    now : as of ``validated`` with ``step``, shape (k,)
    earlier : the same after earlier rounds, shape (rounds, k)
    """
    if not bool(now.isfinite().all()):
        return True
    if not len(earlier) or earlier.shape[1] != len(now):
        return False
    if step:
        return bool(len(now) and now[0] - earlier.min() > _STEPS_WORSE)
    if len(now) < _FEWEST:
        return False
    own = earlier[earlier.mean(dim=1).argmin()].double()
    differences = now.double() - own
    by_chance = _BY_CHANCE * float(differences.std()) / len(differences) ** 0.5
    tolerated = _TOLERATED * float(own.mean())
    return bool(differences.mean() > max(by_chance, tolerated))


def remembered(earlier: Tensor, now: Tensor) -> Tensor:
    """Return the losses of the last rounds with those of this one, shape (rounds, k)."""
    if not len(earlier) or earlier.shape[1] != len(now):
        return now[None]
    return torch.cat([earlier, now[None]])[-_REMEMBERED:]
