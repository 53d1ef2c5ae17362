"""FedAvg (McMahan et al. 2017) of GraphSAGE models, as in FedSage (Zhang et al. 2021)."""

from fedgt_client.graph import Graph
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.sage import GraphSAGE
from fedgt_client.training.task import GraphTask


class FedAvg(TrainedMethod[GraphTask]):
    """Two layers, mean aggregator, five sampled neighbours a layer."""

    def _build_task(self, graph: Graph) -> GraphTask:
        config = self._config
        model = GraphSAGE(
            graph.num_features,
            graph.num_classes,
            width=config.hidden,
            layers=config.layers,
            samples=config.samples,
            dropout=config.dropout,
        )
        return GraphTask(model, GraphTensors.of(graph, self._device), config.batch_size)
