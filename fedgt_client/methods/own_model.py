"""An institution's own GCN, trained beside the federated model and never uploaded.

Where an institution does better alone, its predictions come from this model: the institution
decides, by its own validation nodes.
"""

import math

import numpy as np
import torch
from torch import Tensor

from fedgt_client.methods.base import Arrays
from fedgt_client.methods.mixture import best_weight, mixed
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.training.evaluation import accuracy
from fedgt_client.training.loop import train_epoch
from fedgt_client.training.optimiser import ModelOptimiser
from fedgt_client.training.task import GraphTask, LearningTask
from shared.config import RunConfig

# The recipe of a plain GCN (Kipf & Welling 2017), whatever that of the federated model is.
_RECIPE = {
    "lr": 0.01,
    "lr_schedule": "constant",
    "adam_epsilon": 1e-8,
    "weight_decay": 5e-4,
    "decoupled_weight_decay": False,
}
_WIDTH, _LAYERS, _DROPOUT = 64, 2, 0.5
# It needs no messages, so few rounds do not leave it untrained: as many epochs in all as 100 rounds
# bring, within what a round may take longer by.
_EPOCHS, _ALL_EPOCHS = (2, 10), 200  # at least and at most in a round; in the run
_PATIENCE = 40  # epochs without a better validation accuracy after which it is trained no more

_PREFIX = "own."


def epochs_of_a_round(rounds: int) -> int:
    """Return how many epochs an own model is trained for in each of so many rounds."""
    least, most = _EPOCHS
    return min(max(math.ceil(_ALL_EPOCHS / rounds), least), most)


class OwnModel:
    """The GCN of its best epoch by validation accuracy, and its weight in the predictions."""

    def __init__(self, beside: LearningTask, classes: int, config: RunConfig) -> None:
        from fedgt_client.model.gcn import GCN  # PyG takes seconds to import

        graph = beside.graph
        features = graph.features
        width = features.shape[1] if isinstance(features, Tensor) else features.width
        model = GCN(width, classes, width=_WIDTH, layers=_LAYERS, dropout=_DROPOUT)
        self._task = GraphTask(model, graph, batch_size=0)
        self._task.class_weights = beside.class_weights
        self._optimiser = ModelOptimiser(model, config.model_copy(update=_RECIPE))
        self._select_by = config.select_by
        self._epochs = epochs_of_a_round(config.rounds)
        self._best: Arrays = self._optimiser.parameters()
        self._accuracy, self._waited = -1.0, 0
        self._chosen: Tensor | None = None  # the best model's scores of the nodes of ``choose``
        self.weight = 0.0

    def train(self) -> None:
        """Train some epochs, unless it has stopped getting better."""
        graph = self._task.graph
        val = graph.splits["val"]
        if not len(graph.splits["train"]) or not len(val):
            return
        for _ in range(self._epochs):
            if self._is_trained:
                return
            train_epoch(self._task, self._optimiser.adam)
            found = accuracy(self._task.predict(val), graph.labels[val])
            self._waited += 1
            if found > self._accuracy:
                self._accuracy, self._waited = found, 0
                self._best, self._chosen = self._optimiser.parameters(), None

    def choose(self, nodes: Tensor, federated: Tensor) -> Tensor:
        """Take the weight that is best on validation nodes, of equal ones the smallest.

        Parameters
        ----------
        nodes : shape (k,), the validation nodes first; the same in every call
        federated : the other model's scores of these nodes, shape (k, classes)

        Returns
        -------
        The scores that predictions are made of, shape (k, classes).
        """
        val, self.weight = self._task.graph.splits["val"], 0.0
        if self._accuracy < 0:
            return federated
        if self._chosen is None:
            self._chosen = self._scores(nodes)
        own, labels, count = self._chosen, self._task.graph.labels[val], len(val)
        self.weight = best_weight(
            self._select_by, federated[:count], own[:count], labels, first=0.0
        )
        return mixed(federated, own, self.weight) if self.weight else federated

    def mix(self, nodes: Tensor, federated: Tensor) -> Tensor:
        """Return the scores that predictions are made of, shape (len(nodes), classes)."""
        if not self.weight:
            return federated
        return mixed(federated, self._scores(nodes), self.weight)

    def mix_without(self, node: Tensor, federated: Tensor, other: int) -> Tensor:
        """Return the scores that one node would have if it had no link with another."""
        if not self.weight:
            return federated
        graph = self._task.graph
        if other >= 0:
            graph = graph.without_link(int(node), other)
        return mixed(federated, self._scores(node, graph), self.weight)

    def state_dict(self) -> Arrays:
        """Return the best model and what was chosen; while it is trained, what training needs."""
        facts = np.array([self.weight, self._accuracy, self._waited], np.float32)
        best = {f"{_PREFIX}best.{name}": array for name, array in self._best.items()}
        if self._is_trained:
            return {f"{_PREFIX}facts": facts, **best}
        # Names that start with 'adam.' are for training alone.
        now = {_present(name): array for name, array in self._optimiser.state_dict().items()}
        return {f"{_PREFIX}facts": facts, **best, **now}

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned; without what only training needs, the best."""
        if f"{_PREFIX}facts" not in saved:
            return  # of a version without such models: it begins now
        weight, self._accuracy, waited = (float(value) for value in saved[f"{_PREFIX}facts"])
        self.weight, self._waited, self._chosen = weight, int(waited), None
        names = self._optimiser.parameters()
        self._best = {name: np.array(saved[f"{_PREFIX}best.{name}"]) for name in names}
        start = f"adam.{_PREFIX}"
        now = {name.removeprefix(start): saved[name] for name in saved if name.startswith(start)}
        if now:
            self._optimiser.load_state_dict(now)

    @property
    def _is_trained(self) -> bool:
        """Whether it has stopped getting better."""
        return self._waited >= _PATIENCE

    @torch.no_grad()
    def _scores(self, nodes: Tensor, graph: GraphTensors | None = None) -> Tensor:
        """Return the best model's scores, also of another graph; the present weights stay."""
        present = self._optimiser.parameters()
        self._optimiser.load(self._best)
        if graph is None:
            scores = self._task.predict(nodes)
        else:
            scores = self._task.model.eval()(graph, nodes)
        self._optimiser.load(present)
        return scores


def _present(name: str) -> str:
    return f"adam.{_PREFIX}{name}"
