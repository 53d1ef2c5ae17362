"""GraphGPS (Rampášek et al. 2022) under FedAvg."""

from dataclasses import replace

import torch

from fedgt_client.graph import Graph
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.features import to_tensor, with_columns
from fedgt_client.model.graph_tensors import GraphModel, GraphTensors
from fedgt_client.model.inputs import ENCODING_SCALE
from fedgt_client.preprocess.laplacian import laplacian_encoding


class FedGraphGPS(TrainedMethod):
    """GIN and Performer side by side, on features with a Laplacian encoding beside them."""

    def _build(self, graph: Graph) -> GraphModel:
        from fedgt_client.model.graphgps import GraphGPS

        return GraphGPS(
            graph.num_features,
            graph.num_classes,
            width=self._config.hidden,
            layers=self._config.layers,
            heads=self._config.heads,
            dimensions=self._config.positional_dimensions,
            dropout=self._config.dropout,
        )

    def _tensors(self, graph: Graph, device: torch.device) -> GraphTensors:
        plain = super()._tensors(graph, device)
        encoding = laplacian_encoding(graph, self._config.positional_dimensions) * ENCODING_SCALE
        return replace(plain, features=with_columns(plain.features, to_tensor(encoding, device)))
