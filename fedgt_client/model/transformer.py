"""The graph transformer of FedGT, sections 3.2 and 4.1."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.attention import Affine, HybridAttention, Projections
from fedgt_client.model.blocks import AttentionBlock
from fedgt_client.model.dropout import Dropout
from fedgt_client.model.inputs import InputEncoder, NodeInputs


@dataclass(frozen=True)
class TransformerOutput:
    """The result of a forward pass."""

    logits: Tensor  # shape: (q, classes)
    # At every layer boundary 0…L, the normalised representations there; no gradient.
    representations: list[Tensor]  # each of shape (nodes of that boundary, d)


class TransformerLayer(nn.Module):
    """A pre-LN layer, equations 5 and 6."""

    def __init__(self, width: int, heads: int, dropout: float, *, ppr_bias: bool) -> None:
        super().__init__()
        self.attention_norm = Affine(width)
        self.attention = HybridAttention(width, heads, ppr_bias=ppr_bias)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.dropout = Dropout(dropout)

    def projections(self) -> Projections:
        """Return the maps of normalised representations to queries, keys and values."""
        return self.attention.projections(self.attention_norm)

    def attend(
        self,
        to: Projections,
        hidden: Tensor,
        normal: Tensor,
        key: Tensor,
        value: Tensor,
        global_nodes: int,
        block: AttentionBlock,
    ) -> Tensor:
        """Return H^(l) of the queries from their H^(l-1), plain and normalised, shape (q, d)."""
        attended = self.attention.attend(to, normal, key, value, global_nodes, block)
        hidden = hidden + self.dropout(attended)
        output: Tensor = hidden + self.dropout(self.feed_forward(hidden))
        return output


class GraphTransformer(nn.Module):
    """Features and positional encoding in, class scores out.

    Global nodes live in the space of normalised representations (zero mean, unit mean square over
    the coordinates): a public, fixed scale that does not depend on any institution's weights,
    which is what clipping and noise for privacy need, and in which averages over institutions
    make sense.
    """

    def __init__(
        self,
        *,
        features: int,
        positional_dimensions: int,
        classes: int,
        width: int,
        layers: int,
        heads: int,
        dropout: float,
        ppr_bias: bool,
        global_attention: bool = True,
        node_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.width = width
        self._global_attention = global_attention
        self.dropout = Dropout(dropout)
        self.encoder = InputEncoder(features, positional_dimensions, width, dropout, node_dropout)
        self.layers = nn.ModuleList(
            TransformerLayer(width, heads, dropout, ppr_bias=ppr_bias) for _ in range(layers)
        )
        self.head_norm = Affine(width)
        self.head = nn.Linear(width, classes)

    def forward(
        self,
        inputs: NodeInputs,
        global_nodes: Tensor,
        blocks: Sequence[AttentionBlock],
        others: AttentionBlock | None = None,
    ) -> TransformerOutput:
        """Run all layers.

        Parameters
        ----------
        inputs : of the first block's input nodes
        global_nodes : a set for every layer boundary, shape (L + 1, n_g, d), or one for all layers
        blocks : one for each layer
        others : further queries of the last layer, whose representations alone are wanted
        """
        hidden, of_others = self.encoder(inputs), []
        representations = []
        for index, layer in enumerate(cast(Iterable[TransformerLayer], self.layers)):
            normal, attended = self.normalised(hidden), self.attended_set(global_nodes, index)
            representations.append(normal.detach())
            to = layer.projections()
            tables = layer.attention.keys_and_values(to, normal, attended)
            if others is not None and index == len(blocks) - 1:
                with torch.no_grad():
                    rows = others.of_queries(hidden), others.of_queries(normal)
                    after = layer.attend(to, *rows, *tables, len(attended), others)
                    of_others.append(self.normalised(after))
            rows = blocks[index].of_queries(hidden), blocks[index].of_queries(normal)
            hidden = layer.attend(to, *rows, *tables, len(attended), blocks[index])
        normal = self.normalised(hidden)
        representations.append(torch.cat([normal.detach(), *of_others]))
        return TransformerOutput(self.logits(normal), representations)

    def normalised(self, hidden: Tensor) -> Tensor:
        """Return representations in the space of the global nodes, shape (n, d)."""
        return functional.layer_norm(hidden, (self.width,))

    def attended_set(self, global_nodes: Tensor, layer: int) -> Tensor:
        """Return the global nodes that a layer, counted from 0, attends to, shape (n_g, d)."""
        attended = global_nodes[min(layer, len(global_nodes) - 1)]
        # The ablation without global attention: layers get empty sets.
        return attended if self._global_attention else attended[:0]

    def logits(self, normal: Tensor) -> Tensor:
        """Return class scores of normalised representations after the last layer."""
        scores: Tensor = self.head(self.dropout(self.head_norm(normal)))
        return scores
