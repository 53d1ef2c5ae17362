"""The graph transformer of FedGT, sections 3.2 and 4.1."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.attention import HybridAttention
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

    def forward(
        self, hidden: Tensor, normal: Tensor, global_nodes: Tensor, block: AttentionBlock
    ) -> Tensor:
        """Map H^(l-1) and its normalised form, shape (n, d), to H^(l), shape (q, d)."""
        attended = self.attention(
            self.attention_norm(normal), self.attention_norm(global_nodes), block
        )
        residual = hidden if block.queries is None else hidden.index_select(0, block.queries)
        hidden = residual + self.dropout(attended)
        output: Tensor = hidden + self.dropout(self.feed_forward(hidden))
        return output


class Affine(nn.Module):
    """The learned half of a LayerNorm: scale and shift of what is already normalised."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, normal: Tensor) -> Tensor:
        """Scale and shift, shape (…, d)."""
        return normal * self.weight + self.bias


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
        self, inputs: NodeInputs, global_nodes: Tensor, blocks: Sequence[AttentionBlock]
    ) -> TransformerOutput:
        """Run all layers.

        Parameters
        ----------
        inputs : of the first block's input nodes
        global_nodes : a set for every layer boundary, shape (L + 1, n_g, d), or one for all layers
        blocks : one for each layer
        """
        hidden = self.encoder(inputs)
        # The ablation without global attention: layers get empty sets.
        attended = global_nodes if self._global_attention else global_nodes[:, :0]
        representations = []
        for index, (layer, block) in enumerate(zip(self.layers, blocks, strict=True)):
            normal = functional.layer_norm(hidden, (self.width,))
            representations.append(normal.detach())
            hidden = layer(hidden, normal, attended[min(index, len(attended) - 1)], block)
        normal = functional.layer_norm(hidden, (self.width,))
        representations.append(normal.detach())
        return TransformerOutput(self.head(self.dropout(self.head_norm(normal))), representations)
