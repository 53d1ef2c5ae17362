"""The training loop of every method."""

import math
from dataclasses import dataclass

import torch
from torch.nn import functional

from fedgt_client.training.optimiser import take_step
from fedgt_client.training.task import LearningTask


@dataclass(frozen=True)
class EpochReport:
    """The result of an epoch."""

    loss: float  # mean cross entropy over the nodes of all steps taken; NaN if there were none
    skipped: int  # steps skipped because their gradient was not finite


def train_epoch(task: LearningTask, optimiser: torch.optim.Optimizer) -> EpochReport:
    """Train for one epoch on the labelled training nodes."""
    task.model.train()
    total, counted, skipped = 0.0, 0, 0
    for targets, scores in task.training_passes():
        if not len(targets):
            continue
        labels = task.graph.labels[targets]
        loss = functional.cross_entropy(scores, labels, weight=task.class_weights)
        if take_step(task.model, optimiser, loss + task.penalty()):
            total += loss.item() * len(targets)
            counted += len(targets)
            task.after_step()
        else:
            skipped += 1
    return EpochReport(total / counted if counted else math.nan, skipped)
