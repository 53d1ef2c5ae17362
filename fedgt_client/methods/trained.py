"""Base class for methods that train a model locally and upload the change of its parameters."""

from abc import abstractmethod
from typing import ClassVar, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, ClientMethod, LocalResult
from fedgt_client.model.features import to_tensor
from fedgt_client.state import MEASURED
from fedgt_client.training.device import choose_device
from fedgt_client.training.evaluation import evaluated_nodes, measure
from fedgt_client.training.loop import EpochReport, train_epoch
from fedgt_client.training.optimiser import ModelOptimiser
from fedgt_client.training.private_steps import (
    gradient_noise,
    private_passes,
    train_privately,
    trained_parameters,
)
from fedgt_client.training.received_model import is_worse, remembered, validated
from fedgt_client.training.seeding import seed_round, stable_hash
from fedgt_client.training.task import LearningTask
from shared.config import RunConfig
from shared.files import Array
from shared.wire import KEPT_OWN, NUM_EXAMPLES

Task = TypeVar("Task", bound=LearningTask)

_LOSSES = f"{MEASURED}val_losses"
_KEPT = "kept its own model: with the one it was sent, it is worse on its own validation nodes"


class TrainedMethod(ClientMethod, Generic[Task]):
    """Federated averaging: θ̂ in, Δθ and the number of training examples out."""

    metrics: ClassVar[tuple[str, ...]] = (NUM_EXAMPLES,)

    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None:
        self._config = config
        self._institution = institution
        self._device = choose_device(config.device)
        # The same seed, and so the same starting point, at every institution.
        torch.manual_seed(config.seed)
        self._task = self._build_task(graph)
        if config.class_weights == "balanced":
            self._task.class_weights = balanced_weights(graph).to(self._device)
        self._optimiser = ModelOptimiser(self._task.model, config)
        self._gradient_noise = gradient_noise(config)
        self._rounds = 0  # rounds that this institution has trained in
        # As of ``validated``: after the last rounds, shape (rounds, k), and in the present one.
        self._losses, self._last_losses = torch.empty(0, 0), torch.empty(0)

    @abstractmethod
    def _build_task(self, graph: Graph) -> Task:
        """Create the model and bring the graph to the device."""

    @property
    def task(self) -> Task:
        """The model and the graph it reads."""
        return self._task

    def _is_exchanged(self, name: str) -> bool:
        """Return whether a parameter is exchanged."""
        return True

    def initial_arrays(self) -> Arrays:
        """Return the part of θ^(1) that is exchanged."""
        return self._exchanged()

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Run a round of federated averaging (McMahan et al. 2017, ClientUpdate, Algorithm 1)."""
        start, result = self._train_from(received, round_number)
        examples = {NUM_EXAMPLES: float(len(self._task.graph.splits["train"]))}
        change = self._optimiser.change(start)
        return LocalResult(change, result.metrics | examples, result.warnings)

    def state_dict(self) -> Arrays:
        """Return weights, Adam's moments, the number of rounds and what was measured last."""
        saved = self._optimiser.state_dict() | {"rounds": np.array(self._rounds)}
        if len(self._losses):
            saved[_LOSSES] = self._losses.cpu().numpy()
        return saved

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        self._optimiser.load_state_dict(saved)
        self._rounds = int(saved["rounds"])
        losses = saved.get(_LOSSES, np.empty((0, 0), np.float32))
        self._losses = to_tensor(losses, self._device)

    def predict(self, nodes: NDArray[np.int64]) -> Array:
        """Return class scores as evaluation computes them, shape (len(nodes), classes)."""
        # Some models sample neighbours in evaluation, too.
        seed_round(self._config, self._institution, self._rounds)
        return self._task.predict(to_tensor(nodes, self._device)).cpu().numpy()

    def _load(self, received: Arrays) -> None:
        """Replace what is exchanged by what was received."""
        self._optimiser.load(received)

    def _snapshot(self) -> Arrays:
        """Return all that training changes, as it is now."""
        return unshared(self._optimiser.state_dict())

    def _rewind(self, saved: Arrays) -> None:
        """Go back to what ``_snapshot`` returned."""
        self._optimiser.load_state_dict(saved)

    def _train_from(self, received: Arrays, round_number: int) -> tuple[Arrays, LocalResult]:
        """Train from a received model, or from one's own if that leaves it worse off here.

        Whoever spoils others' models, by mistake or on purpose, does not spoil this one. The first
        try costs nothing else: it is measured in any case.

        Returns
        -------
        start : the parameters that training started from
        result : with the metric ``KEPT_OWN`` and a warning where these are its own
        """
        # With noise on gradients a second try would spend the budget twice, and tell of labels.
        robust = self._config.robust and self._gradient_noise is None
        earlier = self._losses
        own = self._snapshot() if robust else {}
        self._load(received)
        start = self._exchanged()
        result = self._train(round_number)
        spoilt = not all(np.isfinite(array).all() for array in received.values())
        if robust and (spoilt or is_worse(self._last_losses, earlier, self.accuracy_step)):
            tried, tried_losses = self._snapshot(), self._last_losses
            self._rewind(own)
            own_start = self._exchanged()
            own_result = self._train(round_number, again=True)
            if spoilt or self._last_losses.mean() < tried_losses.mean():
                metrics, warnings = own_result.metrics, own_result.warnings
                result = LocalResult({}, metrics | {KEPT_OWN: 1.0}, [_KEPT, *warnings])
                start = own_start
            else:  # its own training makes it worse, too
                self._rewind(tried)
                self._last_losses = tried_losses
        self._losses = remembered(earlier, self._last_losses)
        return start, result

    def _train(self, round_number: int, *, again: bool = False) -> LocalResult:
        """Train for the local epochs, then evaluate as in the paper; upload nothing."""
        seed_round(self._config, self._institution, round_number)
        self._optimiser.set_round(round_number)
        self._rounds += not again
        reports = [
            self._train_epoch(round_number, epoch) for epoch in range(self._config.local_epochs)
        ]
        skipped = sum(report.skipped for report in reports)
        warnings = step_warnings(skipped)
        if self._rounds == 1 and self._gradient_noise is None:  # else they would tell of labels
            warnings += self._data_warnings()
        metrics = self._evaluate() | {
            "train_loss": reports[-1].loss,
            "skipped_steps": skipped,
        }
        return LocalResult({}, metrics, warnings)

    def _train_epoch(self, round_number: int, epoch: int) -> EpochReport:
        if self._gradient_noise is None:
            return train_epoch(self._task, self._optimiser.adam)
        draw = (stable_hash(self._institution), round_number, epoch)
        return train_privately(
            self._task,
            self._optimiser.adam,
            private_passes(self._task, self._config),
            trained_parameters(self._task.model, self._config),
            self._gradient_noise,
            draw,
        )

    def _evaluate(self) -> dict[str, float]:
        """Measure the model after training."""
        graph = self._task.graph
        scores = self._task.predict(evaluated_nodes(graph))
        self._last_losses = validated(graph, scores, self.accuracy_step)
        return measure(graph, scores, self._config.select_by)

    def _data_warnings(self) -> list[str]:
        """Return what the institution should know about its data; reported in the first round."""
        graph = self._task.graph
        return label_warnings(graph.labels[graph.splits["train"]])

    def _exchanged(self) -> Arrays:
        return {
            name: array
            for name, array in self._optimiser.parameters().items()
            if self._is_exchanged(name)
        }


def unshared(arrays: Arrays) -> Arrays:
    """Return arrays with copies of those that are views: of a tensor, which training changes."""
    return {n: array if array.flags.owndata else array.copy() for n, array in arrays.items()}


def balanced_weights(graph: Graph) -> Tensor:
    """Return weights by which every class in training counts the same, shape (classes,).

    The mean over training nodes is 1; a class without training nodes has weight 0.
    """
    counts = np.bincount(graph.labels[graph.train], minlength=graph.num_classes)
    present = max(int((counts > 0).sum()), 1)
    weights = np.where(counts > 0, counts.sum() / (present * np.maximum(counts, 1)), 0.0)
    return torch.from_numpy(weights.astype(np.float32))


def label_warnings(train_labels: Tensor) -> list[str]:
    """Return warnings about an institution's training labels, shape (k,)."""
    classes = len(train_labels.unique())
    if classes == 0:
        return ["no labelled training nodes: nothing is learned here"]
    return ["training nodes of one class only"] if classes == 1 else []


def step_warnings(skipped: int) -> list[str]:
    """Return a warning if training steps were skipped."""
    return [f"{skipped} training steps skipped: non-finite gradient"] if skipped else []
