"""FedAvg (McMahan et al. 2017) of GraphSAGE models, as FedSage has them (Zhang et al. 2021)."""

from fedgt_client.graph import Graph
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.graph_tensors import GraphModel


class FedAvg(TrainedMethod):
    """Two layers, mean aggregator, five sampled neighbours a layer."""

    def _build(self, graph: Graph) -> GraphModel:
        from fedgt_client.model.sage import GraphSAGE

        return GraphSAGE(
            graph.num_features,
            graph.num_classes,
            width=self._config.hidden,
            layers=self._config.layers,
            samples=self._config.samples,
            dropout=self._config.dropout,
        )
