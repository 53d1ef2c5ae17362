"""FED-PUB at an institution (Baek et al. 2023)."""

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.features import to_tensor
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.masked_gcn import MaskedGCN, is_mask
from fedgt_client.training.optimiser import learning_rate
from fedgt_client.training.task import GraphTask
from shared.config import RunConfig
from shared.files import Array
from shared.wire import FUNCTIONAL_EMBEDDING, NUM_EXAMPLES, WEIGHTS

# As in the authors' code: the mask below which a weight is not used; λ2 of the proximal term; the
# random graph.
_UNUSED = 1e-3
_PROXIMITY = 1e-3
_BLOCKS, _BLOCK_NODES, _EDGE_PROBABILITY = 5, 100, 0.1


class MaskedTask(GraphTask):
    """Trains a masked GCN with the two penalties of equation 6.

    In the authors' code the penalties are computed on detached tensors and have no effect. Here
    they have. The one on the masks is a proximal step of its own: as a part of the gradient, Adam
    would turn it into full steps, which erase what others have learned of features not seen here.

    With the authors' λ1 of 1e-3, a mask that starts at one moves by lr · λ1 · rounds = 0.001 in a
    whole run: no weight would ever be dropped. With 0.5, the default, a mask that the loss pushes
    down, too, ends at 0 and stays there.
    """

    model: MaskedGCN

    def __init__(self, model: MaskedGCN, graph: GraphTensors, batch_size: int) -> None:
        super().__init__(model, graph, batch_size)
        self.received: dict[str, Tensor] = {}  # θ̂ that θ stays close to
        self.shrinkage = 0.0  # η λ1, which every step takes from the masks

    def penalty(self) -> Tensor | float:
        """Return λ2 Σ ‖θ − θ̂‖_2."""
        if not self.received:
            return 0.0
        changes = [
            parameter - self.received[name]
            for name, parameter in self.model.named_parameters()
            if name in self.received
        ]
        # The square root has no gradient at 0, where every round starts.
        lengths = [(change.square().sum() + 1e-12).sqrt() for change in changes]
        return _PROXIMITY * sum(lengths, start=torch.zeros((), device=self.graph.device))

    @torch.no_grad()
    def after_step(self, taken: Tensor) -> None:
        """Move every mask towards 0 and not beyond: the proximal step of λ1 ‖μ‖_1."""
        for mask in self.model.masks():
            smaller = mask.sign() * (mask.abs() - self.shrinkage).clamp_min(0.0)
            mask.copy_(smaller.where(taken, mask))


class FedPub(TrainedMethod[MaskedTask]):
    """A GCN with local masks, and its output on a random graph that all institutions share."""

    uploads: ClassVar[tuple[str, ...]] = (WEIGHTS, FUNCTIONAL_EMBEDDING)
    metrics: ClassVar[tuple[str, ...]] = (NUM_EXAMPLES, "mask_sparsity")

    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None:
        super().__init__(graph, config, institution)
        features, edges = random_graph(graph.num_features, config.seed)
        self._random_features = to_tensor(features, self._device)
        self._random_edges = to_tensor(edges, self._device)

    def _build_task(self, graph: Graph) -> MaskedTask:
        config = self._config
        model = MaskedGCN(
            graph.num_features,
            graph.num_classes,
            width=config.hidden,
            layers=config.layers,
            dropout=config.dropout,
            threshold=_UNUSED,
        )
        return MaskedTask(model, GraphTensors.of(graph, self._device), config.batch_size)

    def _is_exchanged(self, name: str) -> bool:
        """Exchange all but the masks."""
        return not is_mask(name)

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Upload Δθ and the functional embedding, line 7 of Algorithm 1."""
        task, rate = self._task, learning_rate(self._config, round_number)
        task.shrinkage = rate * self._config.mask_penalty
        result = super().fit(received, round_number)
        upload = result.upload | {FUNCTIONAL_EMBEDDING: self._functional_embedding()}
        sparsity = {"mask_sparsity": task.model.sparsity()}
        return LocalResult(upload, result.metrics | sparsity, result.warnings)

    def _train(self, round_number: int, *, again: bool = False) -> LocalResult:
        """Stay close to the model that training starts from, received or kept."""
        # The first θ̂ is random: there is no reason to stay close to it.
        close_to = self._exchanged() if self._rounds else {}
        self._task.received = {n: to_tensor(array, self._device) for n, array in close_to.items()}
        return super()._train(round_number, again=again)

    @torch.no_grad()
    def _functional_embedding(self) -> Array:
        """Return the mean representation of the random graph's nodes, equation 4, shape (d,)."""
        model, features = self._task.model.eval(), self._random_features
        nodes = model.representations(features, len(features), self._random_edges)
        return nodes.mean(dim=0).cpu().numpy()


def random_graph(features: int, seed: int) -> tuple[Array, Array]:
    """Draw blocks of a stochastic block model without edges between them, and normal features.

    It depends on the run's seed alone and so is the same for all institutions. Returns shapes
    (500, features) and (2, arcs).
    """
    rng = np.random.default_rng(seed)
    nodes = _BLOCKS * _BLOCK_NODES
    block = np.arange(nodes) // _BLOCK_NODES
    chosen = rng.random((nodes, nodes)) < _EDGE_PROBABILITY
    linked = np.triu(chosen, 1) & (block[:, None] == block[None, :])
    edges = np.stack(np.nonzero(linked | linked.T)).astype(np.int64)
    return rng.standard_normal((nodes, features)).astype(np.float32), edges
