"""Whether training from a received model left an institution worse off, on its own nodes."""

import torch
from torch import Tensor

# Fewer validation nodes say nothing.
_FEWEST = 10
# Standard errors of the mean difference that are put down to chance: models are compared on the
# same nodes.
_BY_CHANCE = 2.5
# Differences below this share of the own loss do not matter, however sure they are.
_TOLERATED = 0.05
# Rounds of its own that an institution compares with; only the last one would not notice a model
# that gets a little worse every round.
_REMEMBERED = 5


def is_worse(now: Tensor, earlier: Tensor) -> bool:
    """Return whether a model is worse on validation nodes than the best of the last rounds.

    Parameters
    ----------
    now : cross entropy of each validation node, shape (k,)
    earlier : the same after earlier rounds, shape (rounds, k)
    """
    if not bool(now.isfinite().all()):
        return True
    if not len(earlier) or earlier.shape[1] != len(now) or len(now) < _FEWEST:
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
