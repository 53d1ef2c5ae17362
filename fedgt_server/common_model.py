"""The model that all institutions share: Adam on the mean of their gradients (FedSGD)."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fedgt_server.robust import length, medians_of_others
from fedgt_server.update_sketch import WIDTH, CountSketch, Sketch, stacked
from shared.wire import COMMON, Arrays

Array32 = NDArray[np.float32]

_RATE, _DECAY = 0.02, 5e-4
_BETAS = 0.9, 0.999
_EPSILON = 1e-8
_STEPS = "steps"
# Gradients keep their direction: cosines with the mean of an institution's last ones are about 0.3
# on the consortium and 0.1 on Cora. Below this share of what is usual for it, less what is chance,
# a gradient has turned.
_TURNED, _CHANCE = 0.4, 0.05
_MEMORY = 0.9  # what a mean of last ones keeps in each round
_COURSE, _ASKED = "course.", "asked."  # in the state


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


class Courses:
    """Where institutions' gradients have pointed: whoever turns round after a while is noticed."""

    def __init__(self, parameters: int) -> None:
        self._sketch = CountSketch(parameters)
        # By institution: the mean of its last directions, behind it that of their cosines with it.
        self.known: dict[str, Sketch] = {}
        self.sums: dict[str, Sketch] = {}  # by institution: of its directions in all rounds

    def direction(self, gradient: Array32) -> Sketch:
        """Return where a gradient points, shape (P,) to a sketch of length 1, or of zeros."""
        return _unit(self._sketch.of(gradient))

    def add(self, directions: Mapping[str, Sketch]) -> None:
        """Add a round's directions to the sums."""
        for name, direction in directions.items():
            self.sums[name] = self.sums.get(name, np.zeros_like(direction)) + direction

    def turned(self, directions: Mapping[str, Sketch]) -> list[str]:
        """Return whose gradients point against their own last ones, and remember the others'.

        Where half of all have turned, it is the model that has passed a minimum, and nobody is
        named. What has turned is not remembered, or whoever insists would soon be believed; but
        less is asked of it in each round, down to not pointing the other way.

        Parameters
        ----------
        directions : of this round, by institution
        """
        before = {
            name: self.known.get(name, np.zeros(WIDTH + 1, np.float32)) for name in directions
        }
        cosines = {
            name: float(direction @ _unit(before[name][:-1]))
            for name, direction in directions.items()
        }
        turned = [
            name
            for name in sorted(directions)
            if cosines[name] < _TURNED * before[name][-1] - _CHANCE
        ]
        if 2 * len(turned) >= len(directions):
            turned = []
        for name, direction in directions.items():
            course, usual = before[name][:-1], _MEMORY * before[name][-1:]
            if name not in turned:
                course = _MEMORY * course + (1.0 - _MEMORY) * direction
                usual = usual + (1.0 - _MEMORY) * cosines[name]
            self.known[name] = np.append(course, usual).astype(np.float32)
        return turned


def _named(saved: Arrays, prefix: str) -> dict[str, Sketch]:
    """Return copies of the arrays with a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): np.array(array)
        for name, array in saved.items()
        if name.startswith(prefix)
    }


def _unit(vector: Array32) -> Array32:
    # Squares of tiny float32 values are 0, and by next to nothing they would be divided.
    exact = vector.astype(np.float64)
    return np.asarray(exact / max(float(np.linalg.norm(exact)), 1e-300), np.float32)


class CommonModel:
    """Weights, Adam's moments, and the gradients of the round that is being played."""

    def __init__(self, weights: Arrays, *, robust: bool, compared: bool = True) -> None:
        self._weights = {name: np.array(array, np.float32) for name, array in weights.items()}
        self._moments = {
            name: np.zeros((2, *array.shape), np.float32) for name, array in weights.items()
        }
        self._steps = 0
        self._robust, self._compared = robust, compared
        self._gradients: dict[str, Arrays] = {}  # by institution
        self._courses = Courses(sum(array.size for array in weights.values()))

    def message(self) -> Arrays:
        """Return the weights that every institution is sent."""
        return dict(self._weights)

    def receive(self, institution: str, arrays: Arrays) -> None:
        """Keep an institution's gradient until the round is complete."""
        self._gradients[institution] = {name: np.array(arrays[name]) for name in self._weights}

    def refuse(self, institution: str) -> None:
        """Forget an institution's gradient."""
        self._gradients.pop(institution, None)

    def step(self, institutions: Collection[str]) -> list[str]:
        """Take a step along the mean gradient of these institutions, and forget all gradients.

        With ``robust`` no gradient counts as longer than the median of the others, and one that
        points against the institution's own last ones is left out.

        Returns
        -------
        Whose gradients were left out.
        """
        gradients = {name: self._gradients[name] for name in institutions}
        self._gradients = {}
        directions = {
            who: self._courses.direction(self._flat(found)) for who, found in gradients.items()
        }
        turned = self._courses.turned(directions) if self._robust else []
        for name in turned:
            del gradients[name], directions[name]
        if self._compared:
            self._courses.add(directions)
        if not gradients:
            return turned
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
        return turned

    def asked(self, institutions: Sequence[str]) -> Array32:
        """Return the sum of all directions of these institutions' gradients, shape (M, WIDTH).

        All gradients of a round are taken at the same weights, so they compare what institutions
        want, and not where each of them is.
        """
        return stacked(self._courses.sums, institutions)

    def state_dict(self) -> Arrays:
        """Return weights, moments, the number of steps and where gradients have pointed."""
        moments = {f"moments.{name}": array for name, array in self._moments.items()}
        courses = {f"{_COURSE}{name}": array for name, array in self._courses.known.items()}
        asked = {f"{_ASKED}{name}": array for name, array in self._courses.sums.items()}
        steps = {_STEPS: np.array([self._steps], np.int64)}
        return self._weights | moments | courses | asked | steps

    @classmethod
    def restored(cls, saved: Arrays, *, robust: bool, compared: bool = True) -> "CommonModel":
        """Return the model whose ``state_dict`` is given."""
        weights = {name: array for name, array in saved.items() if name.startswith(COMMON)}
        model = cls(weights, robust=robust, compared=compared)
        model._moments = {name: np.array(saved[f"moments.{name}"]) for name in weights}
        model._steps = int(saved[_STEPS][0])
        model._courses.known = _named(saved, _COURSE)
        model._courses.sums = _named(saved, _ASKED)
        return model

    def _flat(self, gradient: Arrays) -> Array32:
        return np.concatenate([gradient[name].reshape(-1) for name in sorted(self._weights)])

    def _factors(self, gradients: dict[str, Arrays]) -> dict[str, float]:
        lengths = {who: length(found, found) for who, found in gradients.items()}
        if not self._robust or len(gradients) < 3:
            return dict.fromkeys(gradients, 1.0)
        limits = medians_of_others(lengths)
        return {
            who: min(1.0, limits[who] / found) if found else 1.0 for who, found in lengths.items()
        }
