"""NeighGen: the number and the features of a node's missing neighbours (Zhang et al. 2021)."""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.features import scale
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.sage import GraphSAGE

# Maximum number of neighbours generated for a node.
MAX_GENERATED = 5


class NeighGen(nn.Module):
    """An encoder, dGen and fGen, equations 1 and 2."""

    def __init__(self, features: int, *, width: int, samples: int, dropout: float) -> None:
        super().__init__()
        self.encoder = GraphSAGE(
            features, width, width=width, layers=2, samples=samples, dropout=dropout
        )
        self._features = features
        self.degree = nn.Linear(width, 1)
        self.feature = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, features))

    def counts(self, latent: Tensor) -> Tensor:
        """Predict the number of missing neighbours (dGen), shape (b, d) to (b,)."""
        # Softplus: positive, but unlike after a ReLU the gradient is never zero.
        return functional.softplus(self.degree(latent))[:, 0]

    def features(self, latent: Tensor, noise: Tensor) -> Tensor:
        """Generate a neighbour from each z + noise (fGen), shapes (k, d) to (k, p).

        The rows have unit length, like all features here.
        """
        return functional.normalize(self.feature(latent + noise), dim=1)

    def latent(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Return z of ``nodes``, shape (b, d)."""
        # From rows of unit length, z would be dominated by biases and by the noise of variance one.
        features = scale(graph.features, self._features**0.5)
        latent = self.encoder(replace(graph, features=features), nodes)
        return functional.layer_norm(latent, latent.shape[1:])


def degree_loss(counts: Tensor, missing: Tensor) -> Tensor:
    """Return the first term of equation 3: smooth L1 of predicted and true counts, shape (b,)."""
    return functional.smooth_l1_loss(counts, missing.to(counts))


def matching_loss(generated: Tensor, hidden: Tensor, linked: Tensor) -> Tensor:
    """Return the second term of equation 3, Σ_k min_u ‖x̃_k − x_u‖² over hidden neighbours u.

    Parameters
    ----------
    generated : shape (k, p)
    hidden : shape (h, p), features of hidden nodes
    linked : shape (k, h), bool, which of them are neighbours of the node of each row
    """
    distances = squared_distances(generated, hidden).masked_fill(~linked, torch.inf)
    return distances.amin(dim=1).sum()


def nearest_gradients(generated: Tensor, nodes: Tensor) -> Tensor:
    """Return the gradient of Σ_k min_u ‖x̃_k − x_u‖² by x̃ over all nodes u, of equation 4.

    Shapes (k, p) and (n, p) to (k, p): 2 (x̃ − x_u) for the nearest u. It discloses x_u to
    anyone who knows x̃.
    """
    nearest = squared_distances(generated, nodes).argmin(dim=1)
    return 2.0 * (generated - nodes.index_select(0, nearest))


def squared_distances(one: Tensor, other: Tensor) -> Tensor:
    """Return ‖a − b‖² of all pairs of rows, shapes (k, p) and (n, p) to (k, n)."""
    squares = one.square().sum(1)[:, None] + other.square().sum(1)[None, :]
    return (squares - 2.0 * one @ other.T).clamp_min(0.0)
