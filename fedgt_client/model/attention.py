"""Hybrid attention, section 4.1: each node attends to itself, n_s samples and n_g global nodes."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.blocks import AttentionBlock
from fedgt_client.model.sparse_attention import SparseAttention


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
        width, heads = nodes.shape[1], self._heads
        n_s, size = block.samples.shape[1], width // heads
        query, key, value = self.query_key_value(nodes).split(width, dim=1)  # (n, d) each
        own_key, own_value = key, value
        if block.queries is not None:
            query, own_key, own_value = (
                rows.index_select(0, block.queries) for rows in (query, key, value)
            )
        query = query.reshape(-1, heads, size) / math.sqrt(size)  # (q, h, d/h)
        sparse = SparseAttention(block.samples, heads, len(nodes))
        distant = functional.linear(
            global_nodes, self.query_key_value.weight[width:], self.query_key_value.bias[width:]
        )
        global_key, global_value = distant.view(-1, 2, heads, size).unbind(1)  # (n_g, h, d/h) each

        own_score = (query * own_key.view_as(query)).sum(-1, keepdim=True)  # (q, h, 1)
        local_score = sparse.scores(query.view(-1, size), key.reshape(-1, size)).view(
            -1, heads, n_s
        )
        global_score = torch.einsum("qhd,ghd->qhg", query, global_key)  # (q, h, n_g)
        if self.local_scale is not None:
            local_score = local_score + block.log_weight.unsqueeze(1) * self.local_scale[:, None]
            global_score = global_score + self.global_bias[:, None]
        local_score = local_score.masked_fill(~block.mask.unsqueeze(1), -torch.inf)

        weights = torch.softmax(torch.cat([own_score, local_score, global_score], dim=2), dim=2)
        own_weight, local_weight, global_weight = weights.split([1, n_s, len(global_nodes)], dim=2)
        attended = (
            own_weight * own_value.view_as(query)
            + sparse.weighted_sum(local_weight.reshape(-1, n_s), value.reshape(-1, size)).view_as(
                query
            )
            + torch.einsum("qhg,ghd->qhd", global_weight, global_value)
        )
        output: Tensor = self.out(attended.view(-1, width))
        return output
