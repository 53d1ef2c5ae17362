"""FED-PUB at an institution (Baek et al. 2023)."""

import numpy as np
import torch
from torch import Tensor

from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.graph_tensors import GraphModel
from fedgt_client.training.optimiser import choose_device
from shared.config import RunConfig
from shared.files import Array
from shared.wire import FUNCTIONAL_EMBEDDING

# As in the authors' code: below which mask a weight is not used; λ2 of the proximal term; the
# random graph.
_UNUSED = 1e-3
_PROXIMITY = 1e-3
_BLOCKS, _BLOCK_NODES, _LINK = 5, 100, 0.1


class FedPub(TrainedMethod):
    """A GCN whose masks stay here, and what it makes of a random graph that all share.

    In the authors' code the two penalties of equation 6 are of detached tensors and move nothing.
    Here they do. That on the masks is a proximal step of its own: as a part of the gradient, Adam
    turns it into full steps, which erase what others have learned of features not seen here.

    The authors' λ1 of 1e-3, on a mask that starts at one, moves it by lr · λ1 · rounds = 0.001 in a
    whole run: no weight would ever be left out. With 0.5, the default, a mask that the loss pushes
    down, too, ends at 0 and stays there.
    """

    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None:
        super().__init__(graph, config, institution)
        device = choose_device(config.device)
        features, links = random_graph(graph.num_features, config.seed)
        self._random_features = torch.from_numpy(features).to(device)
        self._random_links = torch.from_numpy(links).to(device)
        self._received: dict[str, Tensor] = {}

    def _build(self, graph: Graph) -> GraphModel:
        from fedgt_client.model.masked_gcn import MaskedGCN

        self._gcn = MaskedGCN(
            graph.num_features,
            graph.num_classes,
            width=self._config.hidden,
            layers=self._config.layers,
            dropout=self._config.dropout,
            threshold=_UNUSED,
        )
        return self._gcn

    def _travels(self, name: str) -> bool:
        """All but the masks."""
        return not name.endswith("mask")

    def _penalty(self) -> Tensor | float:
        """λ2 Σ ‖θ − θ̂‖_2 of equation 6; the first θ̂ is nothing to stay near to."""
        if self._rounds == 1:
            return 0.0
        changes = [
            parameter - self._received[name]
            for name, parameter in self._gcn.named_parameters()
            if name in self._received
        ]
        # The root has no gradient at 0, where every round starts.
        lengths = [(change.square().sum() + 1e-12).sqrt() for change in changes]
        return _PROXIMITY * sum(lengths, start=torch.zeros(()).to(self._random_features))

    def _after_step(self) -> None:
        """The proximal step of λ1 ‖μ‖_1: every mask goes η λ1 towards 0, and not beyond."""
        shrink = self._optimiser.optimiser.param_groups[0]["lr"] * self._config.mask_penalty
        with torch.no_grad():
            for mask in self._gcn.masks():
                mask.copy_(mask.sign() * (mask.abs() - shrink).clamp_min(0.0))

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Δθ and the functional embedding, line 7 of Algorithm 1."""
        device = self._random_links.device
        self._received = {
            name: torch.from_numpy(np.array(array)).to(device) for name, array in received.items()
        }
        result = super().fit(received, round_number)
        upload = result.upload | {FUNCTIONAL_EMBEDDING: self._functional_embedding()}
        sparsity = {"mask_sparsity": self._gcn.sparsity()}
        return LocalResult(upload, result.metrics | sparsity, result.warnings)

    @torch.no_grad()
    def _functional_embedding(self) -> Array:
        """Mean representation of the random graph's nodes, equation 4, shape (d,)."""
        self._gcn.eval()
        nodes = self._gcn.representations(
            self._random_features, len(self._random_features), self._random_links
        )
        return nodes.mean(dim=0).cpu().numpy()


def random_graph(features: int, seed: int) -> tuple[Array, Array]:
    """Blocks of a stochastic block model without links between them, and normal features.

    The same for everyone: from the run's seed alone. Returns shapes (500, features) and (2, arcs).
    """
    rng = np.random.default_rng(seed)
    nodes = _BLOCKS * _BLOCK_NODES
    block = np.arange(nodes) // _BLOCK_NODES
    linked = np.triu(rng.random((nodes, nodes)) < _LINK, 1) & (block[:, None] == block[None, :])
    links = np.stack(np.nonzero(linked | linked.T)).astype(np.int64)
    return rng.standard_normal((nodes, features)).astype(np.float32), links
