"""Predict, then propagate: class scores of single nodes, averaged by personalised PageRank."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.dropout import dropped
from fedgt_client.model.features import Bags, Features, dropout, project, rows_of
from fedgt_client.sampling import Sampler

# Nodes computed at once.
_CHUNK = 4096


@dataclass(frozen=True)
class Neighbourhood:
    """What the scores of some nodes are made of; it does not change while a graph does not."""

    features: Features  # of every node that is averaged over, shape (n, p)
    places: Tensor  # shape: (q, 1 + n_s), each node with its samples, as rows of the features
    shares: Tensor  # shape: (q, 1 + n_s), each row a distribution

    @classmethod
    def of(
        cls, features: Features, sampler: Sampler, nodes: Tensor, without: int = -1
    ) -> "Neighbourhood":
        """Gather the features of ``nodes`` and their samples, but for the node ``without``."""
        samples, shares = _neighbourhood(sampler, nodes, without)
        needed, places = samples.unique(return_inverse=True)
        rows = rows_of(features, needed)
        if isinstance(rows, Bags):
            rows = rows.sorted_by_column()
        return cls(rows, places, shares)

    @property
    def values(self) -> int:
        """Number of the features' stored values."""
        stored = self.features.values if isinstance(self.features, Bags) else self.features
        return stored.numel()


class PropagatedMLP(nn.Module):
    """z_i = Σ_j π_ij MLP(x_j) over a node and its samples (PPRGo, Bojchevski et al. 2020).

    π_i are the PPR values of the strongest samples and of the node itself, scaled to sum to 1.
    It is small, it has no residual connection by which it could learn single nodes by heart, and
    it needs no links beside the sampler's pool.
    """

    def __init__(self, features: int, classes: int, *, width: int, dropout: float) -> None:
        super().__init__()
        self.feature_weight = nn.Parameter(torch.empty(features, width))
        nn.init.xavier_uniform_(self.feature_weight)
        self.feature_bias = nn.Parameter(torch.zeros(width))
        self.head = nn.Linear(width, classes)
        self._dropout = dropout

    def forward(self, around: Neighbourhood) -> Tensor:
        """Return class scores of a neighbourhood's q nodes, shape (q, classes)."""
        return _averaged(self._single(around.features), around.places, around.shares)

    @torch.no_grad()
    def infer(self, features: Features, sampler: Sampler, nodes: Tensor, count: int) -> Tensor:
        """Return class scores of ``nodes`` of a graph of ``count`` nodes, in evaluation mode.

        Every node's own scores are computed once.
        """
        self.eval()
        parts = torch.arange(count, device=nodes.device).split(_CHUNK)
        # One part is all nodes: no copy of their features is needed.
        rows = [features] if len(parts) == 1 else (rows_of(features, part) for part in parts)
        single = torch.cat([self._single(part) for part in rows])
        around = (_neighbourhood(sampler, part) for part in nodes.split(_CHUNK))
        found = [_averaged(single, samples, shares) for samples, shares in around]
        return torch.cat(found) if found else single[:0]

    def _single(self, features: Features) -> Tensor:
        """Return the scores that nodes have by themselves, shape (n, classes)."""
        features = dropout(features, self._dropout, training=self.training)
        hidden = functional.relu(project(features, self.feature_weight) + self.feature_bias)
        scores: Tensor = self.head(dropped(hidden, self._dropout, training=self.training))
        return scores


def _neighbourhood(sampler: Sampler, nodes: Tensor, without: int = -1) -> tuple[Tensor, Tensor]:
    """Return each node with its samples, and their shares, both of shape (q, 1 + n_s)."""
    chosen = sampler.top_k(nodes)
    weights = chosen.log_weight.exp() * (chosen.mask & (chosen.nodes != without))
    shares = torch.cat([sampler.own_weight(nodes)[:, None], weights], dim=1)
    return torch.cat([nodes[:, None], chosen.nodes], dim=1), functional.normalize(shares, 1.0, 1)


def _averaged(scores: Tensor, places: Tensor, shares: Tensor) -> Tensor:
    """Return Σ_j π_ij z_j: shapes (n, classes), (q, s) and (q, s) to (q, classes)."""
    return functional.embedding_bag(places, scores, per_sample_weights=shares, mode="sum")
