"""A toy method's client half and a toy sampler, added as the documentation says."""

import numpy as np
import torch
from torch import Tensor, nn

from fedgt_client.graph import Graph
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.model.graph_model import FeatureEncoder, GraphModel
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.preprocess.samplers import PoolBuilder
from fedgt_client.preprocess.top_k import Pool
from fedgt_client.training.task import GraphTask
from shared.config import RunConfig


class Perceptron(GraphModel):
    """Classifies each node by its own features."""

    def __init__(self, features: int, classes: int, width: int) -> None:
        super().__init__()
        self.encoder = FeatureEncoder(features, width)
        self.head = nn.Linear(width, classes)

    def forward(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes``, shape (len(nodes), classes)."""
        hidden = torch.relu(self.encoder(graph.features))
        scores: Tensor = self.head(hidden.index_select(0, nodes))
        return scores


class Toy(TrainedMethod[GraphTask]):
    """A perceptron, federated."""

    def _build_task(self, graph: Graph) -> GraphTask:
        model = Perceptron(graph.num_features, graph.num_classes, self._config.hidden)
        return GraphTask(model, GraphTensors.of(graph, self._device), self._config.batch_size)


def next_node_pool(graph: Graph, config: RunConfig, size: int) -> Pool:
    """Return the node with the next id as the only candidate of each node."""
    neighbours = np.full((graph.num_nodes, size), -1, np.int32)
    weights = np.zeros((graph.num_nodes, size), np.float32)
    neighbours[:, 0] = (np.arange(graph.num_nodes) + 1) % graph.num_nodes
    weights[:, 0] = 1.0
    return neighbours, weights


POOL_BUILDER = PoolBuilder(next_node_pool)
