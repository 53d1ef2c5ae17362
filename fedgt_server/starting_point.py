"""The starting point of all institutions, from what some of them were asked for."""

import logging
from collections.abc import Mapping

import numpy as np

from fedgt_server.admission import initial_error
from shared.wire import Arrays, Profile

logger = logging.getLogger(__name__)

# How many are asked. All make the same from the run's seed: of three, one alone decides nothing.
SENDERS = 3


def median_model(models: list[Arrays]) -> Arrays:
    """Return the median of each value over models of the same shapes.

    Of three, two of which are the same, that is what the two have. Of two it is the first: their
    mean would be nobody's.
    """
    if len(models) < SENDERS:
        return models[0]
    return {
        name: np.median(np.stack([model[name] for model in models]), axis=0).astype(np.float32)
        for name in models[0]
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
