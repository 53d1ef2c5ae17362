"""Gophormer (Zhao et al. 2021) under FedAvg."""

from fedgt_client.graph import Graph
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.gophormer import Gophormer
from fedgt_client.model.graph_tensors import GraphModel


class FedGophormer(TrainedMethod):
    """A transformer over ego-graphs that GraphSAGE's sampling draws."""

    def _build(self, graph: Graph) -> GraphModel:
        return Gophormer(
            graph.num_features,
            graph.num_classes,
            width=self._config.hidden,
            layers=self._config.layers,
            heads=self._config.heads,
            samples=self._config.samples,
            dropout=self._config.dropout,
        )
