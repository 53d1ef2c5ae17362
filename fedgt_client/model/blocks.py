"""Neighbourhood expansion: which node representations each layer reads and writes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.sampling import Samples


@dataclass(frozen=True)
class AttentionBlock:
    """One attention layer's work. Positions count in the layer's input."""

    queries: Tensor | None  # shape: (q,), input positions of the outputs; None: all, in order
    samples: Tensor  # shape: (q, n_s), input positions that each query attends to
    mask: Tensor  # shape: (q, n_s), bool
    log_weight: Tensor  # shape: (q, n_s)


@dataclass(frozen=True)
class MessageBlock:
    """One message-passing layer's work."""

    inputs: Tensor  # shape: (i,), node ids; the targets come first
    targets: int
    edge_index: Tensor  # shape: (2, e), positions in ``inputs``, from neighbour to target


def attention_blocks(
    samples: Samples, nodes: Tensor, layers: int
) -> tuple[Tensor, list[AttentionBlock]]:
    """Return what ``layers`` attention layers need for the outputs of ``nodes``.

    The result is the node ids whose features are the first layer's input, and a block for each
    layer.
    """
    blocks: list[AttentionBlock] = []
    for _ in range(layers):
        sampled, mask = samples.nodes[nodes], samples.mask[nodes]
        inputs, position = _with_neighbours(nodes, sampled[mask], len(samples.nodes))
        blocks.append(
            AttentionBlock(
                torch.arange(len(nodes), device=nodes.device),
                position[sampled.where(mask, nodes[:, None])],
                mask,
                samples.log_weight[nodes],
            )
        )
        nodes = inputs
    return nodes, blocks[::-1]


def message_block(graph: GraphTensors, nodes: Tensor, samples: int | None) -> MessageBlock:
    """Return the block of all neighbours of ``nodes``, or of ``samples`` sampled for each."""
    sources, targets = sampled_neighbours(graph, nodes, samples)
    inputs, position = _with_neighbours(nodes, sources, graph.num_nodes)
    return MessageBlock(inputs, len(nodes), torch.stack([position[sources], targets]))


def sampled_neighbours(
    graph: GraphTensors, nodes: Tensor, samples: int | None
) -> tuple[Tensor, Tensor]:
    """Return neighbours of ``nodes`` and, for each, the position in ``nodes`` it belongs to.

    All neighbours, or ``samples`` of each node without replacement.
    """
    starts, counts = graph.indptr[nodes], graph.indptr.diff()[nodes]
    rows = torch.arange(len(nodes), device=nodes.device).repeat_interleave(counts)
    first = counts.cumsum(0) - counts  # where each row starts in the result
    rank = torch.arange(len(rows), device=nodes.device) - first[rows]
    sources = graph.neighbours[starts[rows] + rank]
    if samples is None:
        return sources, rows
    # Sorting by row plus a random fraction shuffles within each row.
    shuffled = (rows + torch.rand(len(rows), dtype=torch.float64, device=rows.device)).argsort()
    kept = shuffled[rank < samples]
    return sources[kept], rows[kept]


def _with_neighbours(nodes: Tensor, neighbours: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return a layer's input, ``nodes`` first, then their other neighbours; and each id's position.

    The position is undefined for nodes that are not in the input, shape (num_nodes,).
    """
    others = torch.unique(neighbours)
    others = others[~torch.isin(others, nodes)]
    inputs = torch.cat([nodes, others])
    position = torch.empty(num_nodes, dtype=torch.long, device=nodes.device)
    position[inputs] = torch.arange(len(inputs), device=nodes.device)
    return inputs, position
