"""A model and its optimiser: what every method trains, exchanges and keeps between rounds."""

import hashlib
import math

import numpy as np
import torch
from torch import Tensor, nn

from fedgt_client.state import OPTIMISER
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.files import Array

_MODEL = "model."
_ADAM = ("step", "exp_avg", "exp_avg_sq")


class ModelOptimiser:
    """A torch module with Adam, whose moments live across rounds."""

    def __init__(self, model: nn.Module, config: RunConfig) -> None:
        self._model = model
        self._config = config
        self.optimiser = torch.optim.Adam(
            model.parameters(),
            lr=config.lr,
            weight_decay=config.weight_decay,
            decoupled_weight_decay=config.decoupled_weight_decay,
            eps=config.adam_epsilon,
            fused=True,
        )

    def begin_round(self, round_number: int) -> None:
        """Take this round's learning rate."""
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self._config, round_number)

    def parameters(self) -> dict[str, Array]:
        """A copy of every parameter."""
        return {
            name: parameter.detach().cpu().numpy().copy()
            for name, parameter in self._model.named_parameters()
        }

    def load(self, parameters: dict[str, Array]) -> None:
        """Replace the parameters that are named; the others stay."""
        own = dict(self._model.named_parameters())
        with torch.no_grad():
            for name, array in parameters.items():
                own[name].copy_(torch.from_numpy(np.array(array)))

    def state_dict(self) -> dict[str, Array]:
        """Weights and Adam's moments."""
        saved = {f"{_MODEL}{name}": array for name, array in self.parameters().items()}
        for name, parameter in self._model.named_parameters():
            for key, value in self.optimiser.state[parameter].items():
                saved[f"{OPTIMISER}{key}.{name}"] = value.cpu().numpy()
        return saved

    def load_state_dict(self, saved: dict[str, Array]) -> None:
        """The reverse of ``state_dict``."""
        self.load({name: saved[f"{_MODEL}{name}"] for name, _ in self._model.named_parameters()})
        for name, parameter in self._model.named_parameters():
            moments = {key: saved.get(f"{OPTIMISER}{key}.{name}") for key in _ADAM}
            self.optimiser.state[parameter] = {
                key: torch.from_numpy(np.array(value)).to(parameter.device)
                for key, value in moments.items()
                if value is not None
            }


def take_step(model: nn.Module, optimiser: torch.optim.Optimizer, loss: Tensor) -> bool:
    """A step, unless the gradient is not finite; say which."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    if not torch.isfinite(torch.nn.utils.get_total_norm(gradients)):
        return False
    optimiser.step()
    return True


def learning_rate(config: RunConfig, round_number: int) -> float:
    """η in a round; the cosine schedule falls from ``lr`` in the first round towards 0."""
    if config.lr_schedule == "constant":
        return config.lr
    progress = (round_number - 1) / config.rounds
    return config.lr * 0.5 * (1.0 + math.cos(math.pi * progress))


def accuracy(scores: Tensor, labels: Tensor) -> float:
    """Share of nodes whose class is right, shapes (k, classes) and (k,); NaN without nodes."""
    if not len(labels):
        return math.nan
    return float((scores.argmax(dim=1) == labels).float().mean())


def label_warnings(train_labels: Tensor) -> list[str]:
    """What an institution should know of its training labels."""
    classes = len(train_labels.unique())
    if classes == 0:
        return ["no labelled training nodes: nothing is learned here"]
    return ["training nodes of one class only"] if classes == 1 else []


def step_warnings(skipped: int) -> list[str]:
    """What it should know of its training steps."""
    return [f"{skipped} training steps left out: their gradient was not finite"] if skipped else []


def seed_round(config: RunConfig, institution: str, round_number: int) -> None:
    """Chance depends on seed, institution and round alone, so a round can be run again."""
    number = stable_number(f"{config.seed}/{institution}/{round_number}")
    # Not torch.manual_seed, which writes a stack trace down for each device that is not there.
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)


def stable_number(text: str) -> int:
    """A number that is the same in every process."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])


def choose_device(name: str) -> torch.device:
    """The device called ``name``; auto is the first GPU, if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise FedGTError(f"device is '{name}', expected auto, cpu, cuda or cuda:N") from None
    if device.type not in ("cpu", "cuda"):
        raise FedGTError(f"device is '{name}', expected auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise FedGTError(f"device is '{name}', but torch finds no such CUDA device here")
    return device
