"""FED-PUB's GCN with a personal mask on every weight (Baek et al. 2023, section 4.2)."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.dropout import dropped
from fedgt_client.model.features import Features, project
from fedgt_client.model.graph_model import GraphModel
from fedgt_client.model.graph_tensors import GraphTensors, normalised_arcs


class Masked(nn.Module):
    """A linear map with weight θ ⊙ μ.

    μ starts at one: an institution begins with all weights that it is sent. Where |μ| is below
    ``threshold``, the weight is not used in evaluation; in training it may recover.
    """

    def __init__(self, before: int, after: int, threshold: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(before, after))
        self.bias = nn.Parameter(torch.zeros(after))
        self.mask = nn.Parameter(torch.ones(before, after))
        nn.init.xavier_uniform_(self.weight)
        self._threshold = threshold

    def used_mask(self) -> Tensor:
        """Return μ as used in the current mode, shape (before, after)."""
        if self.training:
            return self.mask
        return self.mask.where(self.mask.abs() >= self._threshold, 0.0)

    def forward(self, values: Features) -> Tensor:
        """Apply the weight; the bias is added after the propagation."""
        return project(values, self.weight * self.used_mask())


class MaskedGCN(GraphModel):
    """Two graph convolutions of width d and a linear classifier, as in the authors' code."""

    def __init__(
        self,
        features: int,
        classes: int,
        *,
        width: int,
        layers: int,
        dropout: float,
        threshold: float,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            Masked(features if depth == 0 else width, width, threshold) for depth in range(layers)
        )
        self.head = Masked(width, classes, threshold)
        self._dropout = dropout

    def forward(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes``, shape (len(nodes), classes)."""
        hidden = self.representations(
            graph.features, graph.num_nodes, graph.edge_index(), graph.weights
        )
        hidden = hidden.index_select(0, nodes)
        hidden = dropped(functional.relu(hidden), self._dropout, training=self.training)
        return torch.as_tensor(self.head(hidden) + self.head.bias)

    def representations(
        self,
        features: Features,
        count: int,
        edge_index: Tensor,
        edge_weights: Tensor | None = None,
    ) -> Tensor:
        """Return the output of the last convolution for all ``count`` nodes, shape (n, d)."""
        sources, targets, weights = normalised_arcs(edge_index, edge_weights, count)
        first, *others = cast(list[Masked], list(self.layers))

        def spread(values: Tensor, layer: Masked) -> Tensor:
            messages = values.index_select(0, sources) * weights[:, None]
            return torch.zeros_like(values).index_add(0, targets, messages) + layer.bias

        hidden = spread(first(features), first)
        for layer in others:
            hidden = dropped(functional.relu(hidden), self._dropout, training=self.training)
            hidden = spread(layer(hidden), layer)
        return hidden

    def masks(self) -> list[Tensor]:
        """Return every μ."""
        return [parameter for name, parameter in self.named_parameters() if is_mask(name)]

    def sparsity(self) -> float:
        """Return the share of weights that evaluation does not use."""
        was, _ = self.training, self.eval()
        used = [layer.used_mask() for layer in self.modules() if isinstance(layer, Masked)]
        self.train(was)
        total = sum(mask.numel() for mask in used)
        return 1.0 - sum(int(mask.count_nonzero()) for mask in used) / total


def is_mask(name: str) -> bool:
    """Return whether a parameter is one of the masks."""
    return name.endswith("mask")
