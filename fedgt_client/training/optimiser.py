"""A model's parameters and its optimiser: what every method exchanges and keeps between rounds."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from fedgt_client.model.features import to_tensor
from fedgt_client.state import OPTIMISER
from fedgt_client.training.adam import Adam
from shared.config import RunConfig
from shared.files import Array

_MODEL = "model."
_ADAM = ("step", "exp_avg", "exp_avg_sq")


class ModelOptimiser:
    """Adam on a module's parameters, with moments that persist across rounds."""

    def __init__(self, model: nn.Module, config: RunConfig) -> None:
        # Once: to find them takes a while, and they stay the same.
        self._parameters = dict(model.named_parameters())
        self._config = config
        self.adam = Adam(
            self._parameters.values(),
            lr=config.lr,
            weight_decay=config.weight_decay,
            decoupled_weight_decay=config.decoupled_weight_decay,
            epsilon=config.adam_epsilon,
        )

    def set_round(self, round_number: int) -> None:
        """Set the learning rate of a round."""
        self.adam.lr = learning_rate(self._config, round_number)

    def parameters(self) -> dict[str, Array]:
        """Return a copy of every parameter."""
        return {
            name: parameter.detach().cpu().numpy().copy()
            for name, parameter in self._parameters.items()
        }

    def change(self, start: dict[str, Array]) -> dict[str, Array]:
        """Return how far the parameters that ``start`` names have moved from it."""
        return {
            name: self._parameters[name].detach().cpu().numpy() - array
            for name, array in start.items()
        }

    def load(self, parameters: dict[str, Array]) -> None:
        """Replace the parameters that are named; keep the others."""
        with torch.no_grad():
            for name, array in parameters.items():
                # torch does not support read-only arrays.
                self._parameters[name].copy_(torch.from_numpy(np.require(array, requirements="W")))

    def state_dict(self) -> dict[str, Array]:
        """Return the weights and Adam's moments."""
        saved = {f"{_MODEL}{name}": array for name, array in self.parameters().items()}
        for name, parameter in self._parameters.items():
            for key, value in self.adam.state.get(parameter, {}).items():
                saved[f"{OPTIMISER}{key}.{name}"] = value.cpu().numpy()
        return saved

    def load_state_dict(self, saved: dict[str, Array]) -> None:
        """Restore what ``state_dict`` returned."""
        self.load({name: saved[f"{_MODEL}{name}"] for name in self._parameters})
        for name, parameter in self._parameters.items():
            moments = {
                key: to_tensor(saved[f"{OPTIMISER}{key}.{name}"], parameter.device)
                for key in _ADAM
                if f"{OPTIMISER}{key}.{name}" in saved
            }
            self.adam.state.pop(parameter, None)
            if moments:
                self.adam.state[parameter] = moments


def take_step(optimiser: Adam, loss: Tensor) -> Tensor:
    """Take a step, unless the gradient is not finite; return whether it was taken, shape ().

    The device decides: the host would have to wait for it.
    """
    optimiser.zero_grad()
    loss.backward()
    gradients = [p.grad for p in optimiser.parameters if p.grad is not None]
    finite = torch.isfinite(torch.nn.utils.get_total_norm(gradients))
    optimiser.step(found_inf=1.0 - finite.float())
    return finite


def learning_rate(config: RunConfig, round_number: int) -> float:
    """Return η of a round; the cosine schedule falls from ``lr`` in the first round towards 0."""
    if config.lr_schedule == "constant":
        return config.lr
    progress = (round_number - 1) / config.rounds
    return config.lr * 0.5 * (1.0 + math.cos(math.pi * progress))
