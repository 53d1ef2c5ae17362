"""The model that all institutions share: Adam on the mean of their gradients (FedSGD)."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from fedgt_server.robust import length, medians_of_others
from shared.wire import COMMON, Arrays

Array32 = NDArray[np.float32]

_RATE, _DECAY = 0.02, 5e-4
_BETAS = 0.9, 0.999
_EPSILON = 1e-8
_STEPS = "steps"


def adam_step(
    weight: Array32, gradient: Array32, moments: Array32, steps: int
) -> tuple[Array32, Array32]:
    """Take a step of Adam with L2 decay (Kingma & Ba 2015, Algorithm 1).

    Parameters
    ----------
    weight, gradient : any shape
    moments : first and second, shape (2, *weight.shape)
    steps : this one counted

    Returns
    -------
    The new weights and moments.
    """
    gradient = gradient + _DECAY * weight
    powers = np.stack([gradient, gradient**2])
    decay = np.reshape(np.array(_BETAS), (2, *[1] * weight.ndim))
    moments = (decay * moments + (1.0 - decay) * powers).astype(np.float32)
    mean, square = (m / (1.0 - beta**steps) for m, beta in zip(moments, _BETAS, strict=True))
    moved = weight - _RATE * mean / (np.sqrt(square) + _EPSILON)
    return moved.astype(np.float32), moments


class CommonModel:
    """Weights, Adam's moments, and the gradients of the round that is being played."""

    def __init__(self, weights: Arrays, *, robust: bool) -> None:
        self._weights = {name: np.array(array, np.float32) for name, array in weights.items()}
        self._moments = {
            name: np.zeros((2, *array.shape), np.float32) for name, array in weights.items()
        }
        self._steps = 0
        self._robust = robust
        self._gradients: dict[str, Arrays] = {}  # by institution

    def message(self) -> Arrays:
        """Return the weights that every institution is sent."""
        return dict(self._weights)

    def receive(self, institution: str, arrays: Arrays) -> None:
        """Keep an institution's gradient until the round is complete."""
        self._gradients[institution] = {name: np.array(arrays[name]) for name in self._weights}

    def refuse(self, institution: str) -> None:
        """Forget an institution's gradient."""
        self._gradients.pop(institution, None)

    def step(self, institutions: Collection[str]) -> None:
        """Take a step along the mean gradient of these institutions, and forget all gradients.

        With ``robust`` no gradient counts as longer than the median of the others.
        """
        gradients = {name: self._gradients[name] for name in institutions}
        self._gradients = {}
        if not gradients:
            return
        factors = self._factors(gradients)
        steps, moved = self._steps + 1, {}
        for name, weight in self._weights.items():
            total = sum(factors[who] * found[name] for who, found in gradients.items())
            mean = np.asarray(total / len(gradients), np.float32)
            moved[name] = adam_step(weight, mean, self._moments[name], steps)
        if all(np.isfinite(part).all() for both in moved.values() for part in both):
            self._weights = {name: weight for name, (weight, _) in moved.items()}
            self._moments = {name: moments for name, (_, moments) in moved.items()}
            self._steps = steps

    def state_dict(self) -> Arrays:
        """Return weights, moments and the number of steps."""
        moments = {f"moments.{name}": array for name, array in self._moments.items()}
        return {**self._weights, **moments, _STEPS: np.array([self._steps], np.int64)}

    @classmethod
    def restored(cls, saved: Arrays, *, robust: bool) -> "CommonModel":
        """Return the model whose ``state_dict`` is given."""
        weights = {name: array for name, array in saved.items() if name.startswith(COMMON)}
        model = cls(weights, robust=robust)
        model._moments = {name: np.array(saved[f"moments.{name}"]) for name in weights}
        model._steps = int(saved[_STEPS][0])
        return model

    def _factors(self, gradients: dict[str, Arrays]) -> dict[str, float]:
        lengths = {who: length(found, found) for who, found in gradients.items()}
        if not self._robust or len(gradients) < 3:
            return dict.fromkeys(gradients, 1.0)
        limits = medians_of_others(lengths)
        return {
            who: min(1.0, limits[who] / found) if found else 1.0 for who, found in lengths.items()
        }
