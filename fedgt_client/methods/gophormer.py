"""Gophormer (Zhao et al. 2021) under FedAvg."""

from fedgt_client.graph import Graph
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.gophormer import Gophormer
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.training.task import GraphTask


class FedGophormer(TrainedMethod[GraphTask]):
    """A transformer over ego-graphs, sampled as in GraphSAGE."""

    def _build_task(self, graph: Graph) -> GraphTask:
        config = self._config
        model = Gophormer(
            graph.num_features,
            graph.num_classes,
            width=config.hidden,
            layers=config.layers,
            heads=config.heads,
            samples=config.samples,
            dropout=config.dropout,
        )
        return GraphTask(model, GraphTensors.of(graph, self._device), config.batch_size)
