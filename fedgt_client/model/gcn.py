"""GCN (Kipf & Welling 2017, equation 9)."""

from itertools import pairwise
from typing import cast

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv

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
        self.layers = nn.ModuleList(GCNConv(before, after) for before, after in pairwise(widths))
        self._dropout = dropout

    def forward(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes``, shape (len(nodes), classes)."""
        adjacency = graph.normalised_adjacency
        hidden: Features = graph.features
        for depth, layer in enumerate(list[GCNConv](self.layers)):
            if depth:
                hidden = functional.relu(cast(Tensor, hidden))
            hidden = dropout(hidden, self._dropout, training=self.training)
            # As GCNConv does, which takes no sparse features.
            hidden = project(adjacency, project(hidden, layer.lin.weight.t())) + layer.bias
        return cast(Tensor, hidden).index_select(0, nodes)
