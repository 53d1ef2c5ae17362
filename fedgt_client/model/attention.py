"""Hybrid attention, section 4.1: each node attends to itself, n_s samples and n_g global nodes."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.blocks import AttentionBlock
from fedgt_client.model.sparse_attention import AttendedRows, attend

# To queries, keys and values: the weight and the bias of each.
Projections = list[tuple[Tensor, Tensor]]


class Affine(nn.Module):
    """The learned half of a LayerNorm: scale and shift of what is already normalised."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, normal: Tensor) -> Tensor:
        """Scale and shift, shape (…, d)."""
        return normal * self.weight + self.bias


class HybridAttention(nn.Module):
    """Multi-head attention of cost O(n (n_s + n_g)), equations 2 to 4.

    One softmax runs over the node itself, its sampled neighbours and the global nodes.

    Parameters
    ----------
    width : d
    heads : h; each works in d / h dimensions
    ppr_bias : add a learned multiple of the sample's log-weight (its log PPR) to its score, and
        a learned constant to the scores of global nodes, one of each for every head
    """

    # So that all global nodes together start with about the weight of one near neighbour.
    _GLOBAL_BIAS = -4.0

    def __init__(self, width: int, heads: int, *, ppr_bias: bool) -> None:
        super().__init__()
        self._heads = heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        for projection in (self.query_key_value, self.out):
            nn.init.normal_(projection.weight, std=0.02)
            nn.init.zeros_(projection.bias)
        if ppr_bias:
            self.local_scale = nn.Parameter(torch.ones(heads))
            self.global_bias = nn.Parameter(torch.full((heads,), self._GLOBAL_BIAS))
        else:
            self.register_parameter("local_scale", None)
            self.register_parameter("global_bias", None)

    def forward(self, nodes: Tensor, global_nodes: Tensor, block: AttentionBlock) -> Tensor:
        """Return the attention output of every query.

        Parameters
        ----------
        nodes : input representations, shape (n, d)
        global_nodes : shape (n_g, d)

        Returns
        -------
        shape (q, d)
        """
        to = self.projections()
        key, value = self.keys_and_values(to, nodes, global_nodes)
        return self.attend(to, block.of_queries(nodes), key, value, len(global_nodes), block)

    def keys_and_values(self, to: Projections, *parts: Tensor) -> tuple[Tensor, Tensor]:
        """Project what is attended to, parts of shape (…, d), to a key and a value each, (n, d)."""
        # Joined afterwards: autograd keeps what a projection reads, and would keep a copy of it.
        keys, values = ([functional.linear(part, *one) for part in parts] for one in to[1:])
        return torch.cat(keys), torch.cat(values)

    def attend(
        self,
        to: Projections,
        queries: Tensor,
        key: Tensor,
        value: Tensor,
        global_nodes: int,
        block: AttentionBlock,
    ) -> Tensor:
        """Return the attention output of ``queries``, shape (q, d).

        ``key`` and ``value`` have a row for every input node, then the last ``global_nodes`` ones.
        """
        own_and_samples = torch.cat([block.positions[:, None], block.samples], dim=1)
        nodes = len(key) - global_nodes
        rows = AttendedRows(own_and_samples, global_nodes, nodes, self._heads)
        bias = self._bias(block, global_nodes)
        attended = attend(functional.linear(queries, *to[0]), key, value, bias, rows)
        output: Tensor = self.out(attended)
        return output

    def projections(self, affine: Affine | None = None) -> Projections:
        """Return weight and bias of the projections to queries, keys and values.

        With an ``affine`` map before them, they take what is not mapped yet: W (s ⊙ x + t) + b =
        (W diag(s)) x + (W t + b). No mapped copy of every node is made, and none is kept.
        """
        weight: Tensor = self.query_key_value.weight
        bias: Tensor = self.query_key_value.bias
        if affine is not None:
            weight, bias = weight * affine.weight, torch.addmv(bias, weight, affine.bias)
        return list(zip(weight.chunk(3), bias.chunk(3), strict=True))

    def _bias(self, block: AttentionBlock, global_nodes: int) -> Tensor:
        """Return what is added to scores of the node, its samples, and global nodes, (q, h, …)."""
        shape = len(block.samples), self._heads
        own = block.log_weight.new_zeros(*shape, 1)
        local, distant = own.expand(*shape, block.samples.shape[1]), own
        if self.local_scale is not None:
            local = block.log_weight.unsqueeze(1) * self.local_scale[:, None]
            distant = self.global_bias[:, None]
        local = local.masked_fill(~block.mask.unsqueeze(1), -torch.inf)
        return torch.cat([own, local, distant.expand(*shape, global_nodes)], dim=2)
