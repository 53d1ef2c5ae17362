"""GraphGPS (Rampášek et al. 2022): GIN, Performer and a Laplacian positional encoding."""

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, GPSConv

from fedgt_client.model.features import dropout, scale_columns
from fedgt_client.model.graph_model import FeatureEncoder, GraphModel
from fedgt_client.model.graph_tensors import GraphTensors


class GraphGPS(GraphModel):
    """GPS layers (equations 1 to 4) over the whole subgraph.

    The last ``dimensions`` columns of the features are the encoding; their signs are redrawn in
    training, as eigenvectors have none. Layer instead of batch normalisation: it has no running
    statistics, of which an average over institutions would mean nothing.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        *,
        width: int,
        layers: int,
        heads: int,
        dimensions: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.encoder = FeatureEncoder(features + dimensions, width)
        self.layers = nn.ModuleList(
            GPSConv(
                width,
                GINConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))),
                heads=heads,
                dropout=dropout,
                norm="layer_norm",
                norm_kwargs={"mode": "node"},
                attn_type="performer",
                attn_kwargs={"head_channels": width // heads},
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, classes)
        self._dimensions = dimensions
        self._dropout = dropout

    def forward(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes``, shape (len(nodes), classes)."""
        inputs, edge_index = graph.features, graph.edge_index()
        if self.training:
            signs = torch.ones(len(self.encoder.weight), device=edge_index.device)
            flips = torch.randint(2, (self._dimensions,), device=edge_index.device) * 2.0 - 1.0
            signs[len(signs) - self._dimensions :] = flips
            inputs = dropout(scale_columns(inputs, signs), self._dropout, training=True)
        hidden = self.encoder(inputs)
        for layer in self.layers:
            hidden = layer(hidden, edge_index)
        scores: Tensor = self.head(hidden.index_select(0, nodes))
        return scores
