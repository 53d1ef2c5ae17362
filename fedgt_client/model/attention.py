"""Hybrid attention, section 4.1: each node attends to itself, n_s samples and n_g global nodes."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.blocks import Block


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

    def forward(self, nodes: Tensor, global_nodes: Tensor, block: Block) -> Tensor:
        """Attend.

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
        projected = self.query_key_value(nodes)
        own = projected if block.queries is None else projected.index_select(0, block.queries)
        query, own_key, own_value = own.view(-1, 3, heads, size).unbind(1)  # (q, h, d/h) each
        query = query / math.sqrt(size)
        # Keys and values in one gather; index_select has a far faster backward than indexing.
        places = block.samples.reshape(-1)
        sampled = projected[:, width:].index_select(0, places).view(-1, n_s, 2, heads, size)
        sampled_key, sampled_value = sampled.unbind(2)  # (q, n_s, h, d/h) each
        distant = functional.linear(
            global_nodes, self.query_key_value.weight[width:], self.query_key_value.bias[width:]
        )
        global_key, global_value = distant.view(-1, 2, heads, size).unbind(1)  # (n_g, h, d/h) each

        own_score = (query * own_key).sum(-1).unsqueeze(1)  # (q, 1, h)
        local_score = (query.unsqueeze(1) * sampled_key).sum(-1)  # (q, n_s, h)
        global_score = torch.einsum("qhd,ghd->qgh", query, global_key)  # (q, n_g, h)
        if self.local_scale is not None:
            local_score = local_score + block.log_weight.unsqueeze(2) * self.local_scale
            global_score = global_score + self.global_bias
        local_score = local_score.masked_fill(~block.mask.unsqueeze(2), -torch.inf)

        weights = torch.softmax(torch.cat([own_score, local_score, global_score], dim=1), dim=1)
        own_weight, local_weight, global_weight = weights.split([1, n_s, len(global_nodes)], dim=1)
        attended = (
            own_weight.squeeze(1).unsqueeze(2) * own_value
            + (local_weight.unsqueeze(3) * sampled_value).sum(1)
            + torch.einsum("qgh,ghd->qhd", global_weight, global_value)
        )
        output: Tensor = self.out(attended.reshape(-1, width))
        return output
