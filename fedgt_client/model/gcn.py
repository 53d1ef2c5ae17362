"""GCN (Kipf & Welling 2017, equation 9)."""

from itertools import pairwise
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.features import Features, dropout, project
from fedgt_client.model.graph_model import GraphModel
from fedgt_client.model.graph_tensors import GraphTensors


class GCN(GraphModel):
    """Â ReLU(… Â X W) W on the whole subgraph, with Â the normalised adjacency with self-loops.

    Links count by their weights where the graph has some.
    """

    def __init__(
        self, features: int, classes: int, *, width: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        widths = [features, *[width] * (layers - 1), classes]
        self.layers = nn.ModuleList(
            GraphConvolution(before, after) for before, after in pairwise(widths)
        )
        self._dropout = dropout

    def forward(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes``, shape (len(nodes), classes)."""
        adjacency = graph.normalised_adjacency
        hidden: Features = graph.features
        for depth, layer in enumerate(self.layers):
            if depth:
                hidden = functional.relu(cast(Tensor, hidden))
            hidden = layer(dropout(hidden, self._dropout, training=self.training), adjacency)
        return cast(Tensor, hidden).index_select(0, nodes)


class GraphConvolution(nn.Module):
    """Â X W + b, with the parameters of PyG's GCNConv.

    That takes no sparse features; to import PyG takes a second in every process of an institution,
    and leaves a file among the temporary ones.
    """

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.lin = nn.Linear(before, after, bias=False)
        self.bias = nn.Parameter(torch.zeros(after))
        nn.init.xavier_uniform_(self.lin.weight)

    def forward(self, values: Features, adjacency: Features) -> Tensor:
        """Apply the convolution, shapes (n, before) and (n, n) to (n, after)."""
        return project(adjacency, project(values, self.lin.weight.t())) + self.bias
