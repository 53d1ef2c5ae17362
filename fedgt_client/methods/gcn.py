"""A plain two-layer GCN trained at home: the honest yardstick."""

from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.graph_tensors import GraphModel


class GCNAtHome(TrainedMethod):
    """What an institution would pick that knows of no federation; only metrics are sent."""

    def _build(self, graph: Graph) -> GraphModel:
        from fedgt_client.model.gcn import GCN

        return GCN(
            graph.num_features,
            graph.num_classes,
            width=self._config.hidden,
            layers=self._config.layers,
            dropout=self._config.dropout,
        )

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Train on from where the last round ended."""
        return self._train(round_number)
