"""The starting point of all institutions, from what some of them were asked for."""

import logging
from collections.abc import Mapping

import numpy as np

from fedgt_server.admission import initial_error
from shared.wire import Arrays, Profile

logger = logging.getLogger(__name__)

# How many are asked. All make the same from the run's seed: of five, two alone decide nothing.
SENDERS = 5


def median_model(models: list[Arrays]) -> Arrays:
    """Return the median of each value over models of the same shapes.

    Where more than half are the same, that is what these have. Of an even number the last does not
    count: the mean of two in the middle would be nobody's.
    """
    odd = models[: len(models) - 1 + len(models) % 2]
    return {
        name: np.median(np.stack([model[name] for model in odd]), axis=0).astype(np.float32)
        for name in odd[0]
    }


def choose(models: Mapping[str, Arrays], profile: Profile) -> tuple[Arrays, list[str]]:
    """Return the starting point of models by institution, and what is wrong with some of them.

    It is empty where none can be used.
    """
    usable, problems = {}, []
    for name, model in sorted(models.items()):
        if problem := initial_error(model, profile.parameters):
            problems.append(f"the starting point of {name} is left out: {problem}")
        else:
            usable[name] = model
    if not usable:
        return {}, problems
    chosen = median_model(list(usable.values()))
    for name, model in usable.items():
        if any(not np.allclose(model[key], chosen[key], atol=1e-4) for key in chosen):
            problems.append(
                f"the starting point of {name} is another than that of most: "
                "has it other settings or another version of PyTorch?"
            )
    return chosen, problems
