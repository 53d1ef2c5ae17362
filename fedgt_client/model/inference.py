"""Evaluation of the graph transformer layer by layer: each layer once for every node.

A node's neighbours are computed anyway, so nothing is expanded and nothing computed twice. Nodes
are taken in chunks: beside one representation, key and value a node, memory does not grow with the
number of nodes.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from fedgt_client.model.blocks import AttentionBlock
from fedgt_client.model.inputs import NodeInputs
from fedgt_client.model.transformer import GraphTransformer, TransformerLayer
from fedgt_client.sampling import Samples

# Nodes computed at once. A vector of each fits a processor's cache, and a graphics card is busy.
CHUNK = 4096


@dataclass(frozen=True)
class NodeOutputs:
    """The model's output for consecutive nodes."""

    nodes: Tensor  # shape: (c,), ids
    logits: Tensor  # shape: (c, classes)
    representations: Tensor  # shape: (c, d), normalised, after the last layer


@torch.no_grad()
def infer(
    model: GraphTransformer,
    inputs: NodeInputs,
    global_nodes: Tensor,
    samples: Callable[[Tensor], Samples],
    chunk: int = CHUNK,
) -> Iterator[NodeOutputs]:
    """Yield the outputs of all nodes in the order of their ids, in evaluation mode.

    Parameters
    ----------
    inputs : of all nodes
    global_nodes : a set for every layer boundary, shape (L + 1, n_g, d), or one for all layers
    samples : returns the nodes that some nodes attend to, the same in every layer
    chunk : nodes computed at once
    """
    model.eval()
    count = len(inputs.encoding)
    ranges = [slice(start, min(start + chunk, count)) for start in range(0, count, chunk)]
    every = torch.arange(count, device=global_nodes.device)
    hidden = global_nodes.new_empty(count, model.width)
    for rows in ranges:
        # One chunk is all nodes: no copy of their inputs is needed.
        hidden[rows] = model.encoder(inputs.rows(every[rows]) if len(ranges) > 1 else inputs)
    for index, layer in enumerate(cast(Iterable[TransformerLayer], model.layers)):
        attended = model.attended_set(global_nodes, index)
        to, project = layer.projections(), layer.attention.keys_and_values
        key, value = (hidden.new_empty(count + len(attended), model.width) for _ in range(2))
        for rows in ranges:
            key[rows], value[rows] = project(to, model.normalised(hidden[rows]))
        key[count:], value[count:] = project(to, attended)
        for rows in ranges:
            chosen = samples(every[rows])
            block = AttentionBlock(every[rows], chosen.nodes, chosen.mask, chosen.log_weight)
            before = hidden[rows]
            normal = model.normalised(before)
            after = layer.attend(to, before, normal, key, value, len(attended), block)
            if index < len(model.layers) - 1:
                hidden[rows] = after  # keys and values of this layer are made: nobody reads before
            else:
                normal = model.normalised(after)
                yield NodeOutputs(every[rows], model.logits(normal), normal)
