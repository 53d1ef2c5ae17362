"""A small model that all institutions train together, beside the personalised one.

Each institution uploads the gradient of its loss at the weights that all have; the coordinator
takes the step (FedSGD, McMahan et al. 2017). So it learns as if the training nodes of all were in
one place, where averages of models that were trained apart lag behind. Every institution decides
by its own validation nodes how far it predicts by it.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedgt_client.methods.base import Arrays
from fedgt_client.methods.mixture import best_weight, mixed
from fedgt_client.model.features import to_tensor
from fedgt_client.model.propagation import Neighbourhood, PropagatedMLP
from fedgt_client.training.task import TransformerTask
from shared.config import RunConfig
from shared.files import Array
from shared.wire import COMMON

_WIDTH, _DROPOUT = 32, 0.5
_CHUNK = 4096  # training nodes whose gradient is computed at once
_KEPT = 2**24  # values of features that are kept from round to round: 64 MB
_WEIGHT = "common_weight"  # in the state


def in_unit_scale(gradient: Array) -> Array:
    """Return a gradient whose non-zero values have a root mean square of 1; zeros stay.

    Noise has a public scale, and gradients become smaller as training goes on. All institutions
    count the same then, however long their gradients are. Most input weights belong to features
    that do not occur, and their zeros tell nothing of the scale of the others.
    """
    values = gradient[gradient != 0].astype(np.float64)
    if not len(values):
        return gradient.copy()
    return np.asarray(gradient / np.sqrt(np.mean(values**2)), np.float32)


class CommonModel:
    """The common weights as they were received last, and their weight in the predictions."""

    def __init__(self, beside: TransformerTask, classes: int, config: RunConfig) -> None:
        graph, features = beside.graph, beside.graph.features
        width = features.shape[1] if isinstance(features, Tensor) else features.width
        with torch.random.fork_rng():
            torch.manual_seed(config.seed)  # the same starting point at every institution
            model = PropagatedMLP(width, classes, width=_WIDTH, dropout=_DROPOUT)
        self._model = model.to(graph.device)
        self._beside = beside
        self._chosen = config.common_model == "chosen"
        self._select_by = config.select_by
        self._around: Neighbourhood | None = None  # of all training nodes, where they are few
        self.weight = 0.5

    def parameters(self) -> Arrays:
        """Return a copy of the weights by their names in messages."""
        return {
            COMMON + name: parameter.detach().cpu().numpy().copy()
            for name, parameter in self._model.named_parameters()
        }

    def load(self, received: Arrays) -> None:
        """Take over the weights."""
        with torch.no_grad():
            for name, parameter in self._model.named_parameters():
                parameter.copy_(to_tensor(received[COMMON + name], parameter.device))

    def gradient(self) -> Arrays:
        """Return the gradient of the mean loss over training nodes; zeros without any.

        In the unit scale of ``in_unit_scale``, in which it is clipped and gets noise.
        """
        graph, train = self._beside.graph, self._beside.graph.splits["train"]
        self._model.train()
        self._model.zero_grad()
        for nodes, around in self._training_parts():
            loss = functional.cross_entropy(
                self._model(around), graph.labels[nodes], weight=self._beside.class_weights
            )
            (loss * (len(nodes) / len(train))).backward()
        return {
            COMMON + name: np.zeros(parameter.shape, np.float32)
            if parameter.grad is None
            else in_unit_scale(parameter.grad.cpu().numpy())
            for name, parameter in self._model.named_parameters()
        }

    def choose(self, nodes: Tensor, personalised: Tensor) -> Tensor:
        """Take the weight that is best on validation nodes, of equal ones that of the mean.

        Parameters
        ----------
        nodes : shape (k,), the validation nodes first
        personalised : the other model's scores of these nodes, shape (k, classes)

        Returns
        -------
        The scores that predictions are made of, shape (k, classes).
        """
        if not len(nodes):
            return personalised
        val, common = self._beside.graph.splits["val"], self._scores(nodes)
        if self._chosen and len(val):
            labels, count = self._beside.graph.labels[val], len(val)
            self.weight = best_weight(
                self._select_by, personalised[:count], common[:count], labels, first=0.5
            )
        return mixed(personalised, common, self.weight) if self.weight else personalised

    def mix(self, nodes: Tensor, personalised: Tensor) -> Tensor:
        """Return the scores that predictions are made of, shape (len(nodes), classes)."""
        if not self.weight or not len(nodes):
            return personalised
        return mixed(personalised, self._scores(nodes), self.weight)

    @torch.no_grad()
    def mix_without(self, node: Tensor, personalised: Tensor, other: int) -> Tensor:
        """Return the scores that one node would have if it did not average over another."""
        if not self.weight:
            return personalised
        graph = self._beside.graph
        around = Neighbourhood.of(graph.features, self._beside.sampler, node, other)
        common = self._model.eval()(around)
        return mixed(personalised, common, self.weight)

    def state_dict(self) -> Arrays:
        """Return the weights, and what was chosen."""
        return self.parameters() | {_WEIGHT: np.array([self.weight], np.float32)}

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        if _WEIGHT in saved:  # not of a version without such models
            self.load(saved)
            self.weight = float(saved[_WEIGHT][0])

    def _training_parts(self) -> Iterator[tuple[Tensor, Neighbourhood]]:
        """Yield training nodes with all that their scores are made of, some at a time."""
        graph, train = self._beside.graph, self._beside.graph.splits["train"]
        for nodes in train.split(_CHUNK) if len(train) else ():
            around = self._around
            if around is None:
                around = Neighbourhood.of(graph.features, self._beside.sampler, nodes)
            if len(nodes) == len(train) and around.values <= _KEPT:
                self._around = around
            yield nodes, around

    def _scores(self, nodes: Tensor) -> Tensor:
        graph = self._beside.graph
        return self._model.infer(graph.features, self._beside.sampler, nodes, graph.num_nodes)
