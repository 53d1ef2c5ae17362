"""Neighbourhood expansion: which node representations each layer reads and writes."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.sampling import Samples


@dataclass(frozen=True)
class AttentionBlock:
    """One attention layer's work. Positions count in the layer's input."""

    queries: Tensor | None  # shape: (q,), input positions of the outputs; None: the first q
    samples: Tensor  # shape: (q, n_s), input positions that each query attends to
    mask: Tensor  # shape: (q, n_s), bool
    log_weight: Tensor  # shape: (q, n_s)

    @property
    def positions(self) -> Tensor:
        """Input positions of the outputs, shape (q,)."""
        if self.queries is not None:
            return self.queries
        return torch.arange(len(self.samples), device=self.samples.device)

    def of_queries(self, rows: Tensor) -> Tensor:
        """Return the queries' rows of a layer's input, shape (q, …)."""
        if self.queries is not None:
            return rows.index_select(0, self.queries)
        return rows[: len(self.samples)]

    def of(self, nodes: Tensor) -> "AttentionBlock":
        """Return the part of a block of all nodes that computes ``nodes``."""
        return AttentionBlock(nodes, self.samples[nodes], self.mask[nodes], self.log_weight[nodes])


@dataclass(frozen=True)
class MessageBlock:
    """One message-passing layer's work."""

    inputs: Tensor  # shape: (i,), node ids; the targets come first
    targets: int
    edge_index: Tensor  # shape: (2, e), positions in ``inputs``, from neighbour to target

    def means(self, values: Tensor) -> Tensor:
        """Return the mean over each target's neighbours, shape (i, d) to (targets, d); 0 without.

        Parameters
        ----------
        values : of the inputs
        """
        sources, targets = self.edge_index
        counts = torch.bincount(targets, minlength=self.targets).clamp_min(1)
        sums = values.new_zeros(self.targets, values.shape[1])
        sums = sums.index_add(0, targets, values.index_select(0, sources))
        return sums / counts[:, None]


def attention_blocks(
    draw: Callable[[Tensor], Samples], nodes: Tensor, num_nodes: int, layers: int
) -> tuple[Tensor, list[AttentionBlock]]:
    """Return what ``layers`` attention layers need for the outputs of ``nodes``.

    ``draw`` returns samples of the nodes that a layer computes. The result is the node ids whose
    features are the first layer's input, and a block for each layer.
    """
    blocks: list[AttentionBlock] = []
    for _ in range(layers):
        samples = draw(nodes)
        # Where masked, a sample is the node itself, which is among ``nodes``.
        inputs, position = _with_neighbours(nodes, samples.nodes.view(-1), num_nodes)
        blocks.append(
            AttentionBlock(None, position[samples.nodes], samples.mask, samples.log_weight)
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
    # A mark for every node takes a tenth of the time of sorting the neighbours.
    is_other = torch.zeros(num_nodes, dtype=torch.bool, device=nodes.device)
    is_other[neighbours] = True
    is_other[nodes] = False
    inputs = torch.cat([nodes, is_other.nonzero()[:, 0]])
    position = torch.empty(num_nodes, dtype=torch.long, device=nodes.device)
    position[inputs] = torch.arange(len(inputs), device=nodes.device)
    return inputs, position
