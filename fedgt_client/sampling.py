"""Sampling of the n_s nodes that each node attends to, section 4.1."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedgt_client.preprocess.top_k import Pool


@dataclass(frozen=True)
class Samples:
    """For every node, the nodes it attends to."""

    nodes: Tensor  # shape: (n, n_s); the node itself where masked
    mask: Tensor  # shape: (n, n_s), bool; False if the pool held no more nodes
    log_weight: Tensor  # shape: (n, n_s); 0 where masked


class Sampler:
    """Samples from a pool without replacement, for all nodes at once."""

    def __init__(self, pool: Pool, samples: int, device: torch.device) -> None:
        # Copies: memory-mapped arrays are read-only, which torch does not support.
        neighbours, weights = (torch.from_numpy(np.array(array)).to(device) for array in pool)
        self._neighbours = neighbours.long()  # shape: (n, pool size)
        self._log_weights = weights.log()  # shape: (n, pool size), -inf where there is no node
        self._own = torch.arange(len(neighbours), device=device)[:, None]
        self._samples = min(samples, neighbours.shape[1])

    @property
    def reachable(self) -> bool:
        """Whether any node has another one to attend to."""
        return bool((self._neighbours >= 0).any())

    def draw(self) -> Samples:
        """Sample with probabilities proportional to the weights.

        The largest of log-weights plus Gumbel noise are such a sample without replacement.
        """
        uniform = torch.rand_like(self._log_weights).clamp_min_(torch.finfo(torch.float32).tiny)
        scores = self._log_weights - torch.log(-torch.log(uniform))
        return self._at(scores.topk(self._samples, dim=1).indices)

    def top_k(self) -> Samples:
        """Return the nodes of largest weight, used in evaluation and prediction."""
        # A pool is sorted by weight, with ties in a fixed order.
        first = torch.arange(self._samples, device=self._own.device)
        return self._at(first.expand(len(self._own), -1))

    def _at(self, places: Tensor) -> Samples:
        """Return the candidates at ``places`` of the pool, shape (n, n_s)."""
        log_weight = self._log_weights.gather(1, places)
        mask = log_weight > -torch.inf
        return Samples(
            # Masked places have weight 0, but 0 · NaN is NaN: they must not refer to another node.
            nodes=self._neighbours.gather(1, places).where(mask, self._own),
            mask=mask,
            log_weight=log_weight.masked_fill(~mask, 0.0),
        )
