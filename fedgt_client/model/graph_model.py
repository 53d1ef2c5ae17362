"""What the models of the baselines have in common."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from fedgt_client.model.features import Features, project
from fedgt_client.model.graph_tensors import GraphTensors


class GraphModel(nn.Module, ABC):
    """A model that classifies nodes of a subgraph."""

    @abstractmethod
    def forward(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes``, shape (len(nodes), classes)."""


class FeatureEncoder(nn.Module):
    """A linear map of features to width d, laid out as ``project`` reads it.

    nn.Linear stores its weight transposed, which would be copied in every pass.
    """

    def __init__(self, features: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features, width))
        self.bias = nn.Parameter(torch.empty(width))
        for parameter in (self.weight, self.bias):
            nn.init.uniform_(parameter, -(features**-0.5), features**-0.5)

    def forward(self, features: Features) -> Tensor:
        """Map shape (n, p) to (n, d)."""
        return project(features, self.weight) + self.bias
