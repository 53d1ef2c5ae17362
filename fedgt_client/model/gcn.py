"""GCN (Kipf & Welling 2017, equation 9)."""

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv

from fedgt_client.model.gnn import GraphModel, GraphTensors


class GCN(GraphModel):
    """Â ReLU(… Â X W) W on the whole subgraph, with Â the normalised adjacency with self-loops."""

    def __init__(
        self, features: int, classes: int, *, width: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        widths = [features, *[width] * (layers - 1), classes]
        self.layers = nn.ModuleList(GCNConv(before, after) for before, after in pairwise(widths))
        self._dropout = dropout

    def forward(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Class scores of ``nodes``, shape (len(nodes), classes)."""
        hidden, edge_index = graph.dense_features(), graph.edge_index()
        for depth, layer in enumerate(self.layers):
            hidden = functional.dropout(
                functional.relu(hidden) if depth else hidden, self._dropout, self.training
            )
            hidden = layer(hidden, edge_index)
        return hidden.index_select(0, nodes)
