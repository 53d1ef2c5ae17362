"""Sampling of the n_s nodes that each node attends to, section 4.1."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedgt_client.preprocess.top_k import Pool

_TINY = torch.finfo(torch.float32).tiny
_SCALE = 2.0**-5
# The paper's ν.
_LEAST = 0.15


@dataclass(frozen=True)
class Samples:
    """For each of some nodes, the nodes it attends to."""

    nodes: Tensor  # shape: (q, n_s); the node itself where masked
    mask: Tensor  # shape: (q, n_s), bool; False if the pool held no more nodes
    log_weight: Tensor  # shape: (q, n_s); 0 where masked


class Sampler:
    """Samples from a pool without replacement, for many nodes at once."""

    def __init__(self, pool: Pool, samples: int, device: torch.device) -> None:
        # Copied only if memory-mapped and so read-only, which torch does not support: the pool is
        # the largest array of an institution with many nodes.
        self._neighbours, self._weights = (  # shape: (n, pool size); no node has weight 0
            torch.from_numpy(np.require(array, requirements="W")).to(device) for array in pool
        )
        self._samples = min(samples, self._neighbours.shape[1])

    @property
    def reachable(self) -> bool:
        """Whether any node has another one to attend to."""
        return bool((self._neighbours >= 0).any())

    def draw(self, nodes: Tensor) -> Samples:
        """Sample for ``nodes`` with probabilities proportional to the weights.

        The first arrivals, where candidates arrive at rates that are their weights, are such a
        sample without replacement.
        """
        weights = self._weights[nodes]
        # The scale keeps arrivals at the smallest rates finite; places without a node get none.
        arrival = torch.rand_like(weights).clamp_min_(_TINY).log_().mul_(-_SCALE).div_(weights)
        # Unsorted: attention does not depend on the order.
        first = arrival.topk(self._samples, dim=1, largest=False, sorted=False).indices
        return self._at(nodes, self._neighbours[nodes].gather(1, first), weights.gather(1, first))

    def top_k(self, nodes: Tensor) -> Samples:
        """Return the nodes of largest weight, used in evaluation and prediction."""
        # A pool is sorted by weight, with ties in a fixed order.
        first = slice(self._samples)
        return self._at(nodes, self._neighbours[nodes, first], self._weights[nodes, first])

    def own_weight(self, nodes: Tensor) -> Tensor:
        """Return what the candidates leave to a node itself of a mass of 1, shape (q,).

        Of PPR that is its own value and the little that lies beyond the pool; at least ``_LEAST``,
        which every node has of its own PPR, also where weights are of another kind.
        """
        return (1.0 - self._weights[nodes].sum(dim=1)).clamp_min(_LEAST)

    def _at(self, nodes: Tensor, chosen: Tensor, weights: Tensor) -> Samples:
        """Return candidates and weights, each of shape (q, n_s), as samples."""
        mask = weights > 0
        return Samples(
            # Masked places have weight 0, but 0 · NaN is NaN: they must not refer to another node.
            nodes=chosen.long().where(mask, nodes[:, None]),
            mask=mask,
            log_weight=weights.log().masked_fill_(~mask, 0.0),
        )
