"""GraphGPS (Rampášek et al. 2022) under FedAvg."""

from dataclasses import replace

from fedgt_client.graph import Graph
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.features import with_columns
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.graphgps import GraphGPS
from fedgt_client.preprocess.laplacian import laplacian_encoding
from fedgt_client.training.task import GraphTask


class FedGraphGPS(TrainedMethod[GraphTask]):
    """GIN and Performer in parallel, on features concatenated with a Laplacian encoding."""

    def _build_task(self, graph: Graph) -> GraphTask:
        config = self._config
        model = GraphGPS(
            graph.num_features,
            graph.num_classes,
            width=config.hidden,
            layers=config.layers,
            heads=config.heads,
            dimensions=config.positional_dimensions,
            dropout=config.dropout,
        )
        encoding = laplacian_encoding(graph, config.positional_dimensions)
        tensors = GraphTensors.of(graph, self._device, encoding)
        tensors = replace(tensors, features=with_columns(tensors.features, tensors.encoding))
        return GraphTask(model, tensors, config.batch_size)
