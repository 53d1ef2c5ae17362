"""GraphSAGE with the mean aggregator (Hamilton et al. 2017, Algorithm 2)."""

from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import SAGEConv

from fedgt_client.model.gnn import GraphModel, GraphTensors, hop


class GraphSAGE(GraphModel):
    """h_v ← W_self h_v + W_neigh mean{h_u : u a sampled neighbour}, ReLU between the layers.

    ``samples`` neighbours are drawn for each node and layer in training; all of them count in
    evaluation.
    """

    def __init__(
        self, features: int, classes: int, *, width: int, layers: int, samples: int, dropout: float
    ) -> None:
        super().__init__()
        widths = [features, *[width] * (layers - 1), classes]
        self.layers = nn.ModuleList(
            SAGEConv(before, after, aggr="mean") for before, after in pairwise(widths)
        )
        self._samples = samples
        self._dropout = dropout

    def forward(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Class scores of ``nodes``, shape (len(nodes), classes)."""
        hops, needed = [], nodes
        for _ in self.layers:
            hops.append(hop(graph, needed, self._samples if self.training else None))
            needed = hops[-1].inputs
        hidden = graph.features[needed]
        for depth, (layer, step) in enumerate(zip(self.layers, reversed(hops), strict=True)):
            hidden = functional.dropout(
                functional.relu(hidden) if depth else hidden, self._dropout, self.training
            )
            hidden = layer((hidden, hidden[: step.targets]), step.edge_index)
        return hidden
