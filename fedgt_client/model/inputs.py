"""What enters the model: features of nodes, sparse or dense, and their positional encoding."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from shared.graph import Graph, SparseRows

# A hint beside the features: at full scale the model learns places instead of contents.
ENCODING_SCALE = 0.06


@dataclass(frozen=True)
class Bags:
    """Sparse feature rows as bags of weighted columns."""

    columns: Tensor  # shape: (nnz,)
    values: Tensor  # shape: (nnz,)
    offsets: Tensor  # shape: (n + 1,), where each node's bag starts

    def rows(self, nodes: Tensor) -> "Bags":
        """The bags of ``nodes``, in their order."""
        lengths = self.offsets.diff()[nodes]
        offsets = functional.pad(lengths.cumsum(0), (1, 0))
        shift = (self.offsets[:-1][nodes] - offsets[:-1]).repeat_interleave(lengths)
        places = torch.arange(int(offsets[-1]), device=nodes.device) + shift
        return Bags(self.columns[places], self.values[places], offsets)


@dataclass(frozen=True)
class NodeInputs:
    """Features, shape (n, p), and positional encoding, shape (n, k)."""

    features: Tensor | Bags
    encoding: Tensor

    @classmethod
    def of(cls, graph: Graph, encoding: np.ndarray, device: torch.device) -> "NodeInputs":
        """All nodes of a graph, each feature vector scaled to unit length.

        Bags of words of any length and standardised columns so meet the encoder at one scale;
        the layer normalisation behind it would remove a node's length anyway.
        """

        def tensor(array: np.ndarray) -> Tensor:
            # A copy: memory-mapped arrays are read-only, which torch does not support.
            return torch.from_numpy(np.array(array)).to(device)

        features = graph.features
        if not isinstance(features, SparseRows):
            return cls(
                functional.normalize(tensor(features), dim=1), tensor(encoding * ENCODING_SCALE)
            )
        counts = np.diff(features.indptr)
        rows = np.repeat(np.arange(len(counts)), counts)
        squares = np.bincount(rows, features.values**2, minlength=len(counts))
        values = features.values / np.sqrt(np.maximum(squares, 1e-12))[rows].astype(np.float32)
        bags = Bags(tensor(features.indices).long(), tensor(values), tensor(features.indptr))
        return cls(bags, tensor(encoding * ENCODING_SCALE))

    def rows(self, nodes: Tensor) -> "NodeInputs":
        """The inputs of ``nodes``, in their order."""
        features = self.features
        return NodeInputs(
            features.rows(nodes) if isinstance(features, Bags) else features[nodes],
            self.encoding[nodes],
        )

    def with_flipped_signs(self) -> "NodeInputs":
        """Each dimension of the encoding with a random sign: eigenvectors have none."""
        signs = torch.randint(2, (self.encoding.shape[1],), device=self.encoding.device) * 2 - 1
        return NodeInputs(self.features, self.encoding * signs)


class InputEncoder(nn.Module):
    """A linear map of features and encoding to width d that never makes sparse features dense."""

    _INIT = 0.03

    def __init__(self, features: int, dimensions: int, width: int, dropout: float) -> None:
        super().__init__()
        self.feature_weight = nn.Parameter(torch.empty(features, width))
        self.encoding_weight = nn.Parameter(torch.empty(dimensions, width))
        nn.init.normal_(self.feature_weight, std=self._INIT)
        nn.init.normal_(self.encoding_weight, std=self._INIT)
        self._dropout = dropout

    def forward(self, inputs: NodeInputs) -> Tensor:
        """Shape (n, d)."""
        features = inputs.features
        if isinstance(features, Bags):
            hidden = functional.embedding_bag(
                features.columns,
                self.feature_weight,
                features.offsets,
                mode="sum",
                per_sample_weights=self._drop(features.values),
                include_last_offset=True,
            )
        else:
            hidden = self._drop(features) @ self.feature_weight
        return hidden + self._drop(inputs.encoding) @ self.encoding_weight

    def _drop(self, values: Tensor) -> Tensor:
        return functional.dropout(values, self._dropout, self.training)
