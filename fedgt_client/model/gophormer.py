"""Gophormer (Zhao et al. 2021): a transformer over sampled ego-graphs."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.model.blocks import sampled_neighbours
from fedgt_client.model.dropout import Dropout
from fedgt_client.model.features import dropout, rows_of
from fedgt_client.model.graph_model import FeatureEncoder, GraphModel
from fedgt_client.model.graph_tensors import GraphTensors

# Highest power of the normalised adjacency in the proximity encoding.
_POWERS = 2
# Ego-graphs computed at once in evaluation.
_CHUNK = 64


class Gophormer(GraphModel):
    """Each node's class from a sequence: itself, sampled neighbours, and theirs.

    The sequence is the paper's Node2Seq with GraphSAGE sampling (section 3.2); attention between
    its nodes is biased by proximity (section 3.3). Left out: its consistency regularisation, its
    learnable global nodes, and the mean over several samples in evaluation. A node that is sampled
    twice is in the sequence twice.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        *,
        width: int,
        layers: int,
        heads: int,
        samples: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.encoder = FeatureEncoder(features, width)
        self.layers = nn.ModuleList(EgoLayer(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)
        self._samples = samples
        self._dropout = dropout

    def forward(self, graph: GraphTensors, nodes: Tensor) -> Tensor:
        """Return class scores of ``nodes``, shape (len(nodes), classes)."""
        members, mask = ego_graphs(graph, nodes, self._samples)
        # Each distinct node is encoded once.
        distinct, place = members.unique(return_inverse=True)
        inputs = dropout(rows_of(graph.features, distinct), self._dropout, training=self.training)
        encoded = self.encoder(inputs)
        if self.training:
            return self._scores(graph, encoded, distinct, place, mask)
        # Sequences of similar length need little padding.
        order = mask.sum(1).argsort()
        scores = [
            self._scores(graph, encoded, distinct, place[rows], mask[rows])
            for rows in order.split(_CHUNK)
        ]
        return torch.cat(scores).index_select(0, order.argsort())

    def _scores(
        self, graph: GraphTensors, encoded: Tensor, distinct: Tensor, place: Tensor, mask: Tensor
    ) -> Tensor:
        """Return scores of the sequences with node ids ``distinct[place]``, shape (b, classes)."""
        place, mask = compact(place, mask)
        closeness = proximity(graph, distinct[place], mask)
        present, place = place.unique(return_inverse=True)
        tokens = encoded.index_select(0, present)
        for depth, layer in enumerate(self.layers, start=1):
            last = depth == len(self.layers)
            # Of the last layer only the node itself is read, the first of every sequence.
            tokens = layer(tokens, place, closeness, mask, first=1 if last else None)
            place = (mask.reshape(-1).cumsum(0) - 1).view_as(mask)
        scores: Tensor = self.head(self.norm(tokens))
        return scores


class EgoLayer(nn.Module):
    """A pre-norm transformer layer with proximity-enhanced attention, equation 6."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.before_attention, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.proximity = nn.Parameter(torch.zeros(heads, _POWERS + 1))
        self.feed = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), Dropout(dropout), nn.Linear(2 * width, width)
        )
        self.dropout = Dropout(dropout)
        self._heads = heads

    def forward(
        self,
        tokens: Tensor,
        place: Tensor,
        closeness: Tensor,
        mask: Tensor,
        *,
        first: int | None = None,
    ) -> Tensor:
        """Return the output for the real members of every sequence, or for its ``first`` ones.

        Parameters
        ----------
        tokens : shape (s, d), vectors that members have; several may have the same
        place : shape (b, t), which of them each member has; anything where masked
        closeness : shape (b, powers, t, t)
        mask : shape (b, t), which members are real

        Returns
        -------
        shape (real, d), sequence by sequence
        """
        width, asked = tokens.shape[1], mask[:, :first]
        parts = self.query_key_value(self.before_attention(tokens))
        query = self._of_heads(parts[:, :width], place[:, :first])
        key = self._of_heads(parts[:, width : 2 * width], place)
        value = self._of_heads(parts[:, 2 * width :], place)
        bias = torch.einsum("hp,bpij->bhij", self.proximity, closeness[:, :, :first])
        bias = bias.masked_fill(~mask[:, None, None, :], -torch.inf)
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        real = asked.reshape(-1).nonzero()[:, 0]
        mixed = mixed.transpose(1, 2).reshape(-1, width).index_select(0, real)
        hidden = tokens.index_select(0, place[:, :first][asked])
        hidden = hidden + self.dropout(self.output(mixed))
        fed: Tensor = hidden + self.dropout(self.feed(self.before_feed(hidden)))
        return fed

    def _of_heads(self, part: Tensor, place: Tensor) -> Tensor:
        """Gather each member's vector, shapes (s, d) and (b, t) to (b, heads, t, d / heads)."""
        chosen = part.index_select(0, place.reshape(-1))
        return chosen.view(*place.shape, self._heads, -1).transpose(1, 2)


def ego_graphs(
    graph: GraphTensors, nodes: Tensor, samples: int, hops: int = 2
) -> tuple[Tensor, Tensor]:
    """Return each node with up to ``samples`` sampled neighbours of every node one hop before.

    Returns
    -------
    members : shape (b, t), the node itself first; the node itself, too, where masked
    mask : shape (b, t), bool, t = 1 + samples + samples² + …
    """
    members, masks = [nodes[:, None]], [torch.ones(len(nodes), 1, dtype=torch.bool)]
    masks[0] = masks[0].to(nodes.device)
    for _ in range(hops):
        parents, alive = members[-1].reshape(-1), masks[-1].reshape(-1)
        found, rows = sampled_neighbours(graph, parents, samples)
        counts = torch.bincount(rows, minlength=len(parents))
        first = counts.cumsum(0) - counts
        # The sampled neighbours come row by row.
        column = torch.arange(len(rows), device=nodes.device) - first[rows]
        sampled = parents[:, None].repeat(1, samples)
        sampled[rows, column] = found
        present = torch.zeros_like(sampled, dtype=torch.bool)
        present[rows, column] = True
        present &= alive[:, None]
        members.append(sampled.view(len(nodes), -1))
        masks.append(present.view(len(nodes), -1))
    mask = torch.cat(masks, dim=1)
    return torch.cat(members, dim=1).where(mask, nodes[:, None]), mask


def compact(members: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Move real members first and cut the padding to the longest of the ego-graphs."""
    longest = int(mask.sum(1).max())
    order = mask.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :longest]
    return members.gather(1, order), mask.gather(1, order)


def proximity(graph: GraphTensors, members: Tensor, mask: Tensor) -> Tensor:
    """Return powers 0, 1, … of D^-1/2 (A + I) D^-1/2 in each ego-graph, (b, powers, t, t)."""
    degree = graph.indptr.diff().float() + 1.0
    scale = degree.rsqrt()[members] * mask  # masked nodes are close to no other
    adjacency = linked(graph, members) * scale[:, :, None] * scale[:, None, :]
    same = (members[:, :, None] == members[:, None, :]) & mask[:, :, None] & mask[:, None, :]
    powers = [same.float()]
    for _ in range(_POWERS):
        powers.append(adjacency if len(powers) == 1 else powers[-1] @ adjacency)
    return torch.stack(powers, dim=1)


def linked(graph: GraphTensors, members: Tensor) -> Tensor:
    """Return A + I between the members of each ego-graph, shape (b, t, t)."""
    count = graph.num_nodes
    rows = graph.all_nodes().repeat_interleave(graph.indptr.diff())
    # Rows in order and sorted in themselves: one sorted number for each arc.
    arcs = rows * count + graph.neighbours
    wanted = members[:, :, None] * count + members[:, None, :]
    itself = members[:, :, None] == members[:, None, :]
    if not len(arcs):
        return itself.float()
    place = torch.searchsorted(arcs, wanted).clamp_max(len(arcs) - 1)
    return ((arcs[place] == wanted) | itself).float()
