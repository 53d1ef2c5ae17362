"""Predict, then propagate: class scores of single nodes, averaged by personalised PageRank."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.dropout import dropped
from fedgt_client.model.features import Features, dropout, project, rows_of
from fedgt_client.sampling import Sampler

# Nodes computed at once.
_CHUNK = 4096


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

    def forward(
        self, features: Features, sampler: Sampler, nodes: Tensor, without: int = -1
    ) -> Tensor:
        """Return class scores of ``nodes``, shape (len(nodes), classes).

        No node averages over the node ``without``.
        """
        samples, shares = _neighbourhood(sampler, nodes, without)
        needed, places = samples.unique(return_inverse=True)
        scores = self._single(rows_of(features, needed))
        return _averaged(scores, places, shares)

    @torch.no_grad()
    def infer(self, features: Features, sampler: Sampler, nodes: Tensor, count: int) -> Tensor:
        """Return class scores of ``nodes`` of a graph of ``count`` nodes, in evaluation mode.

        Every node's own scores are computed once.
        """
        self.eval()
        every = torch.arange(count, device=nodes.device)
        single = torch.cat([self._single(rows_of(features, part)) for part in every.split(_CHUNK)])
        parts = (_neighbourhood(sampler, part) for part in nodes.split(_CHUNK))
        found = [_averaged(single, samples, shares) for samples, shares in parts]
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
