"""Which representations each layer reads and writes: the whole subgraph, or a batch of it."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedgt_client.model.inputs import NodeInputs
from fedgt_client.sampling import Samples


@dataclass(frozen=True)
class Block:
    """One layer's work. Positions count in the layer's input."""

    queries: Tensor | None  # shape: (q,), input positions of the outputs; None: all, in order
    samples: Tensor  # shape: (q, n_s), input positions that each query attends to
    mask: Tensor  # shape: (q, n_s), bool
    log_weight: Tensor  # shape: (q, n_s)


@dataclass(frozen=True)
class Batch:
    """A forward pass: what goes in, and which of the outputs are wanted."""

    inputs: NodeInputs
    blocks: list[Block]
    targets: Tensor  # shape: (t,), node ids that the pass is for
    outputs: Tensor | None  # shape: (t,), their rows in the output; None: all, in order


def batches(
    inputs: NodeInputs, samples: Samples, nodes: Tensor, *, size: int, layers: int
) -> Iterator[Batch]:
    """The passes that compute ``nodes``.

    ``size`` 0 is a single pass over the whole subgraph, which computes every other node along the
    way; otherwise each pass computes ``size`` of the nodes and, by neighbourhood expansion, what
    they need.
    """
    if size == 0:
        block = Block(None, samples.nodes, samples.mask, samples.log_weight)
        yield Batch(inputs, [block] * layers, nodes, nodes)
        return
    for targets in nodes.split(size):
        needed, blocks = expand(samples, targets, layers)
        yield Batch(inputs.rows(needed), blocks, targets, None)


def expand(samples: Samples, nodes: Tensor, layers: int) -> tuple[Tensor, list[Block]]:
    """What ``layers`` layers need for the outputs of ``nodes``, by neighbourhood expansion.

    Returns the node ids whose features are the first layer's input, and a block for each layer.
    """
    blocks: list[Block] = []
    for _ in range(layers):
        drawn, mask = samples.nodes[nodes], samples.mask[nodes]
        # The queries come first in the input, then whoever else they attend to.
        others = torch.unique(drawn[mask])
        others = others[~torch.isin(others, nodes)]
        inputs = torch.cat([nodes, others])
        position = torch.empty(len(samples.nodes), dtype=torch.long, device=nodes.device)
        position[inputs] = torch.arange(len(inputs), device=nodes.device)
        blocks.append(
            Block(
                torch.arange(len(nodes), device=nodes.device),
                position[drawn.where(mask, nodes[:, None])],
                mask,
                samples.log_weight[nodes],
            )
        )
        nodes = inputs
    return nodes, blocks[::-1]


def whole_graph_bytes(nodes: int, *, samples: int, width: int, layers: int) -> int:
    """About what a training step over all nodes keeps in memory.

    A layer gathers n_s keys and values for each node, keeps their products for the backward pass,
    and holds some twenty further vectors a node (projections, feed-forward, normalisations).
    """
    return 4 * nodes * layers * width * (4 * samples + 20)
