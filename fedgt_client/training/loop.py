"""The training loop of every method."""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from fedgt_client.training.adam import Adam
from fedgt_client.training.optimiser import take_step
from fedgt_client.training.task import LearningTask


@dataclass(frozen=True)
class EpochReport:
    """The result of an epoch."""

    loss: float  # mean cross entropy over the nodes of all steps taken; NaN if there were none
    skipped: int  # steps skipped because their gradient was not finite


def train_epoch(task: LearningTask, optimiser: Adam) -> EpochReport:
    """Train for one epoch on the labelled training nodes.

    What is reported stays on the device until the epoch's end: to read a number there, the host
    would wait for the device in every step.
    """
    task.model.train()
    totals = torch.zeros(3, dtype=torch.float64, device=task.graph.device)
    for targets, scores in task.training_passes():
        if not len(targets):
            continue
        labels = task.graph.labels[targets]
        loss = functional.cross_entropy(scores, labels, weight=task.class_weights)
        taken = take_step(optimiser, loss + task.penalty())
        summed = (loss.detach() * len(targets)).where(taken, 0.0)
        totals += torch.stack([summed.double(), taken * float(len(targets)), 1.0 - taken.double()])
        task.after_step(taken)
    total, counted, skipped = totals.tolist()
    return EpochReport(total / counted if counted else math.nan, int(skipped))
