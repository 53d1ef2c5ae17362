"""DP-SGD (Abadi et al. 2016): steps whose gradient tells little about any training node's label.

The unit is the label of one training node. A label stands in one term of the loss alone, so with
each node's gradient clipped to norm C, another label changes their sum by 2C at most. It is not the
node: its features and links are in the gradients of all nodes that attend to it, which sampling
does not bound. Neither are the labels of validation and test nodes, which only metrics use.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.privacy.accounting import gaussian_noise
from fedgt_client.privacy.mechanism import NoiseMechanism
from fedgt_client.training.adam import Adam
from fedgt_client.training.loop import EpochReport
from fedgt_client.training.task import LearningTask
from shared.config import RunConfig


def gradient_noise(config: RunConfig) -> NoiseMechanism | None:
    """Return the noise of one step, None where a run has none.

    All steps of a run together cost ``label-epsilon``: each is over all training nodes, so nothing
    is gained by sampling.
    """
    if config.label_privacy != "dp-sgd":
        return None
    ratio = gaussian_noise(config.label_epsilon, config.rounds * config.local_epochs)
    clip = config.gradient_clip
    return NoiseMechanism("l2", clip, 2.0 * clip * ratio, config.ldp_noise_seed)


def trained_parameters(model: nn.Module, config: RunConfig) -> list[nn.Parameter]:
    """Return what private steps change; what else the model has stays as it began."""
    if config.private_layers == "all":
        return list(model.parameters())
    own = [list(module.parameters(recurse=False)) for module in model.modules()]
    return next(parameters for parameters in reversed(own) if parameters)


def private_passes(task: LearningTask, config: RunConfig) -> Iterator[tuple[Tensor, Tensor]]:
    """Return an epoch's passes, in which every node's gradient is cheap to compute by itself.

    That of the last layer needs no more than a node's scores, however many were computed at once.
    """
    return task.training_passes() if config.private_layers == "head" else task.single_passes()


def train_privately(
    task: LearningTask,
    optimiser: Adam,
    passes: Iterator[tuple[Tensor, Tensor]],
    parameters: list[nn.Parameter],
    noise: NoiseMechanism,
    draw: tuple[int, ...],
) -> EpochReport:
    """Take one step over all training nodes; the loss, which labels determine, is not reported.

    Parameters
    ----------
    passes : of ``task``, see ``private_passes``
    parameters : what is trained
    """
    task.model.train()
    optimiser.zero_grad()
    total, nodes = np.zeros(sum(p.numel() for p in parameters), np.int64), 0
    for targets, scores in passes:
        losses = functional.cross_entropy(scores, task.graph.labels[targets], reduction="none")
        for loss in losses:
            gradients = torch.autograd.grad(
                loss, parameters, retain_graph=len(losses) > 1, allow_unused=True
            )
            flat = [
                (torch.zeros_like(p) if g is None else g).reshape(-1)
                for p, g in zip(parameters, gradients, strict=True)
            ]
            total += noise.clipped(torch.cat(flat).double().cpu().numpy())
        nodes += len(losses)
    if nodes:
        mean = torch.from_numpy(noise.noised(total, draw) / nodes)
        for parameter, part in zip(
            parameters, mean.split([p.numel() for p in parameters]), strict=True
        ):
            parameter.grad = part.to(parameter).view_as(parameter)
        optimiser.step()
    return EpochReport(math.nan, 0)
