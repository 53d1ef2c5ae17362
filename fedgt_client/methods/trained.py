"""Base class for methods that train a model locally and upload the change of its parameters."""

from abc import abstractmethod
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, ClientMethod, LocalResult
from fedgt_client.model.features import to_tensor
from fedgt_client.training.device import choose_device
from fedgt_client.training.evaluation import evaluate
from fedgt_client.training.loop import train_epoch
from fedgt_client.training.optimiser import ModelOptimiser
from fedgt_client.training.seeding import seed_round
from fedgt_client.training.task import LearningTask
from shared.config import RunConfig
from shared.files import Array
from shared.wire import NUM_EXAMPLES

Task = TypeVar("Task", bound=LearningTask)


class TrainedMethod(ClientMethod, Generic[Task]):
    """Federated averaging: θ̂ in, Δθ and the number of training examples out."""

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
        self._rounds = 0  # rounds that this institution has trained in

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
        self._optimiser.load(received)
        start = self._exchanged()
        result = self._train(round_number)
        examples = {NUM_EXAMPLES: float(len(self._task.graph.splits["train"]))}
        change = self._optimiser.change(start)
        return LocalResult(change, result.metrics | examples, result.warnings)

    def state_dict(self) -> Arrays:
        """Return weights, Adam's moments and the number of rounds."""
        return self._optimiser.state_dict() | {"rounds": np.array(self._rounds)}

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        self._optimiser.load_state_dict(saved)
        self._rounds = int(saved["rounds"])

    def predict(self, nodes: NDArray[np.int64]) -> Array:
        """Return class scores as evaluation computes them, shape (len(nodes), classes)."""
        # Some models sample neighbours in evaluation, too.
        seed_round(self._config, self._institution, self._rounds)
        return self._task.predict(to_tensor(nodes, self._device)).cpu().numpy()

    def _train(self, round_number: int) -> LocalResult:
        """Train for the local epochs, then evaluate as in the paper; upload nothing."""
        seed_round(self._config, self._institution, round_number)
        self._optimiser.set_round(round_number)
        self._rounds += 1
        reports = [
            train_epoch(self._task, self._optimiser.adam) for _ in range(self._config.local_epochs)
        ]
        skipped = sum(report.skipped for report in reports)
        warnings = step_warnings(skipped)
        if self._rounds == 1:
            warnings += self._data_warnings()
        metrics = evaluate(self._task, self._config.select_by) | {
            "train_loss": reports[-1].loss,
            "skipped_steps": skipped,
        }
        return LocalResult({}, metrics, warnings)

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
