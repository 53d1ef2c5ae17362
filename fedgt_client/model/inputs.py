"""The graph transformer's input: node features, sparse or dense, and positional encoding."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from fedgt_client.model.dropout import dropped
from fedgt_client.model.features import (
    Features,
    dropout,
    project,
    rows_of,
)


@dataclass(frozen=True)
class NodeInputs:
    """Features, shape (n, p), and positional encoding, shape (n, k)."""

    features: Features
    encoding: Tensor
    for_one_pass: bool = False  # nobody else reads them: dropout may overwrite them

    def rows(self, nodes: Tensor) -> "NodeInputs":
        """Return the inputs of ``nodes``, in their order."""
        return NodeInputs(rows_of(self.features, nodes), self.encoding[nodes], for_one_pass=True)

    def with_flipped_signs(self) -> "NodeInputs":
        """Give each dimension of the encoding a random sign: eigenvectors have none."""
        signs = torch.randint(2, (self.encoding.shape[1],), device=self.encoding.device) * 2 - 1
        return replace(self, encoding=self.encoding * signs)


class InputEncoder(nn.Module):
    """A linear map of features and encoding to width d that never makes sparse features dense."""

    _INIT = 0.03

    def __init__(
        self,
        features: int,
        dimensions: int,
        width: int,
        dropout: float,
        node_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.feature_weight = nn.Parameter(torch.empty(features, width))
        self.encoding_weight = nn.Parameter(torch.empty(dimensions, width))
        nn.init.normal_(self.feature_weight, std=self._INIT)
        nn.init.normal_(self.encoding_weight, std=self._INIT)
        self._dropout, self._node_dropout = dropout, node_dropout

    def forward(self, inputs: NodeInputs) -> Tensor:
        """Return the input representations, shape (n, d)."""
        features = dropout(
            inputs.features, self._dropout, training=self.training, inplace=inputs.for_one_pass
        )
        encoding = dropped(inputs.encoding, self._dropout, training=self.training)
        encoded = project(features, self.feature_weight) + encoding @ self.encoding_weight
        if not (self.training and self._node_dropout):
            return encoded
        return encoded * dropped(encoded.new_ones(len(encoded), 1), self._node_dropout)
