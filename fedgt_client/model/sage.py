"""GraphSAGE with the mean aggregator (Hamilton et al. 2017, Algorithm 2)."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.blocks import MessageBlock, message_block
from fedgt_client.model.features import Features, dropout, project, rows_of
from fedgt_client.model.graph_model import GraphModel
from fedgt_client.model.graph_tensors import GraphTensors


class GraphSAGE(GraphModel):
    """h_v ← W_self h_v + W_neigh mean{h_u : u a sampled neighbour}, ReLU between the layers.

    ``samples`` neighbours are sampled for each node and layer in training; all are used in
    evaluation.
    """

    def __init__(
        self, features: int, classes: int, *, width: int, layers: int, samples: int, dropout: float
    ) -> None:
        super().__init__()
        widths = [features, *[width] * (layers - 1), classes]
        self.layers = nn.ModuleList(MeanConv(before, after) for before, after in pairwise(widths))
        self._samples = samples
        self._dropout = dropout

    def forward(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes``, shape (len(nodes), classes)."""
        blocks, needed = [], nodes
        for _ in self.layers:
            blocks.append(message_block(graph, needed, self._samples if self.training else None))
            needed = blocks[-1].inputs
        inputs, scores = rows_of(graph.features, needed), torch.empty(0)
        for layer, block in zip(self.layers, reversed(blocks), strict=True):
            scores = layer(dropout(inputs, self._dropout, training=self.training), block)
            inputs = functional.relu(scores)
        return scores


class MeanConv(nn.Module):
    """PyG's SAGEConv, but with the projection before the mean.

    The result is the same, and nothing as wide as the features is gathered or averaged.
    """

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.neighbours = nn.Parameter(torch.empty(before, after))
        self.own = nn.Parameter(torch.empty(before, after))
        self.bias = nn.Parameter(torch.empty(after))
        for parameter in (self.neighbours, self.own, self.bias):
            nn.init.uniform_(parameter, -(before**-0.5), before**-0.5)

    def forward(self, inputs: Features, block: MessageBlock) -> Tensor:
        """Return the output of the block's targets, shape (targets, d)."""
        targets = rows_of(inputs, torch.arange(block.targets, device=block.inputs.device))
        own = project(targets, self.own)
        return own + block.means(project(inputs, self.neighbours)) + self.bias
