"""A plain two-layer GCN trained locally: the baseline of an institution on its own."""

from typing import ClassVar

from fedgt_client.graph import Graph
from fedgt_client.methods.base import Arrays, LocalResult
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.gcn import GCN
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.training.task import GraphTask


class LocalGCN(TrainedMethod[GraphTask]):
    """A GCN without federation; only metrics are sent."""

    uploads: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = ()

    def _build_task(self, graph: Graph) -> GraphTask:
        config = self._config
        model = GCN(
            graph.num_features,
            graph.num_classes,
            width=config.hidden,
            layers=config.layers,
            dropout=config.dropout,
        )
        return GraphTask(model, GraphTensors.of(graph, self._device), config.batch_size)

    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Continue training from the end of the last round."""
        return self._train(round_number)
