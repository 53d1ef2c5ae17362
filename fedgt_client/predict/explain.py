"""What a node's prediction leans on: attention, checked by taking things away one at a time.

Attention says where the model looked, not what mattered. So every neighbour and every global node
that the node attends to is also removed, alone, and the drop in the predicted class's probability
is measured: in the whole prediction, also where other models predict with the graph transformer.
Methods without attention are explained by their links alone.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedgt_client.data.own_data import OwnData
from fedgt_client.folders import cache_dir
from fedgt_client.graph import UNLABELLED, Graph
from fedgt_client.methods.fedgt import FedGT
from fedgt_client.model.transformer import GraphTransformer, TransformerLayer
from fedgt_client.predict.leave_one_out import (
    check_repeatable,
    linked_nodes,
    node_scores,
    without_link,
)
from fedgt_client.predict.model import Model
from fedgt_client.preprocess.cache import prepare
from shared.errors import FedGTError

# By how much scores here may differ from the model's: sums in another order, nothing else.
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Influence:
    """Something that a node attends to."""

    kind: Literal["itself", "neighbour", "global node"]
    name: str  # a node's id, or a global node's number
    label: str | None  # of a labelled neighbour
    weight: float | None  # of a neighbour in sampling: its personalised PageRank
    attention: float | None  # mean over layers and heads; all of a node add up to 1
    drop: float | None  # in the probability when it is taken away; None for the node itself


@dataclass(frozen=True)
class Explanation:
    """One node's prediction, and what it leans on: largest drop first."""

    node: str
    predicted: str
    probability: float
    influences: tuple[Influence, ...]


@dataclass(frozen=True)
class _Field:
    """The nodes that a prediction depends on, the explained one first, and whom each attends to."""

    nodes: NDArray[np.int64]  # shape: (k,), their numbers in the graph
    samples: Tensor  # shape: (k, n_s), positions in ``nodes``; 0 where masked
    mask: Tensor  # shape: (k, n_s), bool
    log_weight: Tensor  # shape: (k, n_s); 0 where masked

    def without(self, node: int) -> "_Field":
        """Return the field in which nobody attends to a node of the graph."""
        kept = torch.from_numpy(self.nodes != node)[self.samples]
        return replace(self, mask=self.mask & kept)


def explain(model: Model, data: OwnData, node_id: str) -> Explanation:
    """Explain the prediction of one node.

    Raises
    ------
    FedGTError
        If there is no such node, or if the method draws at random in prediction.
    """
    node = data.position(node_id)
    model.check_data(data)
    # Some hundred nodes: not worth a graphics card.
    on_cpu = {"config": model.record.config | {"device": "cpu"}}
    method_record = model.record.model_copy(update=on_cpu)
    method = replace(model, record=method_record).method(data.graph)
    if not isinstance(method, FedGT):
        return _explain_by_links(replace(model, record=method_record), data, node)
    return _explain_by_attention(model, method, data, node)


def _explain_by_attention(model: Model, method: FedGT, data: OwnData, node: int) -> Explanation:
    """Explain the prediction of the graph transformer and the models that predict with it."""
    field, reader = _receptive_field(model, data, node), _Reader(model, method)
    scores, attention = reader.read(field)
    mixture = method.mixed_scores(node, scores)
    _check_scores(mixture, method.predict(np.array([node]))[0])
    predicted = int(model.calibration.predict(mixture[None], model.class_names)[0])

    def probability(of: NDArray[np.float32], without: int = -1) -> float:
        mixture = method.mixed_scores(node, of, without)
        return float(model.calibration.probabilities(mixture[None])[0, predicted])

    before, attends = probability(scores), method.transformer_weight > 0
    name, itself = data.ids[node].as_py(), float(attention[0])
    found = []
    for other, slot in _neighbours(method, data.graph, field, node).items():
        drop = before - probability(reader.read(field.without(other))[0], other)
        seen = float(attention[1 + slot]) if attends and slot is not None else None
        found.append(_neighbour(data, field, other, slot, seen, drop))
    for index in range(reader.global_nodes if attends else 0):
        drop = before - probability(reader.read(field, without_global=index)[0])
        seen = float(attention[1 + field.samples.shape[1] + index])
        found.append(Influence("global node", str(index), None, None, seen, drop))
    found.sort(key=lambda one: -abs(one.drop or 0.0))
    first = Influence("itself", name, None, None, itself if attends else None, None)
    return Explanation(name, model.class_names[predicted], before, (first, *found))


def _neighbours(method: FedGT, graph: Graph, field: _Field, node: int) -> dict[int, int | None]:
    """Return the nodes to take away, with their places among the samples, None for the others.

    The institution's own model reads links, the others read samples.
    """
    found: dict[int, int | None] = {}
    if method.own_weight < 1:
        slots = torch.nonzero(field.mask[0])[:, 0].tolist()
        found |= {int(field.nodes[int(field.samples[0, slot])]): slot for slot in slots}
    if method.own_weight > 0:
        found |= {other: None for other in linked_nodes(graph, node).tolist() if other not in found}
    return found


def _check_scores(found: NDArray[np.float32], expected: NDArray[np.float32]) -> None:
    """Raise FedGTError if the explained scores are not what the model computes, (classes,)."""
    if not np.allclose(found, expected, atol=_TOLERANCE, rtol=_TOLERANCE):
        raise FedGTError("the explanation's scores differ from the model's: please report this")


def _explain_by_links(model: Model, data: OwnData, node: int) -> Explanation:
    """Explain the prediction of a method without attention: links taken away one at a time."""
    graph, name = data.graph, data.ids[node].as_py()
    check_repeatable(model, graph, node)
    scores = node_scores(model, graph, node)
    predicted = int(model.calibration.predict(scores[None], model.class_names)[0])

    def probability(of: NDArray[np.float32]) -> float:
        return float(model.calibration.probabilities(of[None])[0, predicted])

    before = probability(scores)
    found = []
    for other in linked_nodes(graph, node).tolist():
        after = probability(node_scores(model, without_link(graph, node, other), node))
        label = _label(data, other)
        found.append(
            Influence("neighbour", data.ids[other].as_py(), label, None, None, before - after)
        )
    ordered = sorted(found, key=lambda one: -abs(one.drop or 0.0))
    itself = Influence("itself", name, None, None, None, None)
    return Explanation(name, model.class_names[predicted], before, (itself, *ordered))


def _label(data: OwnData, node: int) -> str | None:
    label = data.graph.labels[node]
    return None if label == UNLABELLED else data.graph.class_names[label]


def _neighbour(
    data: OwnData, field: _Field, other: int, slot: int | None, attention: float | None, drop: float
) -> Influence:
    weight = None if slot is None else math.exp(float(field.log_weight[0, slot]))
    name, label = data.ids[other].as_py(), _label(data, other)
    return Influence("neighbour", name, label, weight, attention, drop)


def _receptive_field(model: Model, data: OwnData, node: int) -> _Field:
    """Return all nodes within as many steps of sampled neighbours as the model has layers.

    Those of the last step attend to none: what they would attend to is of no effect on ``node``.
    """
    config = model.record.settings
    neighbours, weights = prepare(data.graph, config, cache_dir() / "prepared").pool
    place = {node: 0}
    edge = [node]
    rows: list[tuple[int, NDArray[np.int64], NDArray[np.float64]]] = []
    for _ in range(config.layers):
        following: list[int] = []
        for source in edge:
            ids = neighbours[source, : config.samples].astype(np.int64)
            present = ids >= 0
            for other in ids[present].tolist():
                if other not in place:
                    place[other] = len(place)
                    following.append(other)
            chosen = np.array([place[other] for other in ids[present].tolist()], np.int64)
            shares = weights[source, : config.samples][present].astype(np.float64)
            rows.append((place[source], chosen, shares))
        edge = following
    samples = torch.zeros(len(place), config.samples, dtype=torch.long)
    mask = torch.zeros(len(place), config.samples, dtype=torch.bool)
    log_weight = torch.zeros(len(place), config.samples)
    for row, chosen, shares in rows:
        samples[row, : len(chosen)] = torch.from_numpy(chosen)
        mask[row, : len(chosen)] = True
        log_weight[row, : len(chosen)] = torch.from_numpy(np.log(shares)).float()
    return _Field(np.array(list(place)), samples, mask, log_weight)


class _Reader:
    """Runs the model over a field, in the open: equations 2 to 6 with the attention weights."""

    def __init__(self, model: Model, method: FedGT) -> None:
        config = model.record.settings
        self._heads = config.heads
        task = method.task
        self._model: GraphTransformer = task.model.eval()
        self._inputs = task.graph.inputs()
        centres = task.global_nodes.centres  # shape: (sets, n_g, d)
        self._centres = centres if config.global_attention else centres[:, :0]

    @property
    def global_nodes(self) -> int:
        """Number of global nodes that are attended to."""
        return self._centres.shape[1]

    @torch.no_grad()
    def read(
        self, field: _Field, *, without_global: int | None = None
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the first node's scores, shape (classes,), and its attention, (1 + n_s + n_g,)."""
        centres = self._centres
        if without_global is not None:
            kept = [index for index in range(self.global_nodes) if index != without_global]
            centres = centres[:, kept]
        hidden = self._model.encoder(self._inputs.rows(torch.from_numpy(field.nodes)))
        width, attention = hidden.shape[1], []
        for index, layer in enumerate(self._model.layers):
            normal = functional.layer_norm(hidden, (width,))
            distant = centres[min(index, len(centres) - 1)]
            hidden, weights = self._layer(layer, hidden, normal, distant, field)
            attention.append(weights[0].mean(dim=0))
        normal = functional.layer_norm(hidden, (width,))
        scores = self._model.head(self._model.head_norm(normal[:1]))[0]
        return scores.numpy(), torch.stack(attention).mean(dim=0).numpy()

    def _layer(
        self,
        layer: nn.Module,
        hidden: Tensor,
        normal: Tensor,
        distant: Tensor,
        field: _Field,
    ) -> tuple[Tensor, Tensor]:
        """Return a layer's output, shape (k, d), and its attention, shape (k, h, 1 + n_s + n_g)."""
        assert isinstance(layer, TransformerLayer)
        attention, heads = layer.attention, self._heads
        nodes, globe = layer.attention_norm(normal), layer.attention_norm(distant)
        shape = (-1, 3, heads, nodes.shape[1] // heads)
        query, key, value = attention.query_key_value(nodes).view(shape).unbind(1)  # (k, h, d/h)
        _, far_key, far_value = attention.query_key_value(globe).view(shape).unbind(1)
        query = query / math.sqrt(query.shape[2])
        keys = torch.cat([key[:, None], key[field.samples]], dim=1)  # (k, 1 + n_s, h, d/h)
        values = torch.cat([value[:, None], value[field.samples]], dim=1)
        near = torch.einsum("khd,kshd->khs", query, keys)
        far = torch.einsum("khd,ghd->khg", query, far_key)
        if attention.local_scale is not None:
            near[:, :, 1:] += field.log_weight[:, None] * attention.local_scale[:, None]
            far = far + attention.global_bias[:, None]
        near[:, :, 1:] = near[:, :, 1:].masked_fill(~field.mask[:, None], -torch.inf)
        weights = torch.softmax(torch.cat([near, far], dim=2), dim=2)
        near_weight, far_weight = weights.split([near.shape[2], far.shape[2]], dim=2)
        mixed = torch.einsum("khs,kshd->khd", near_weight, values)
        mixed = mixed + torch.einsum("khg,ghd->khd", far_weight, far_value)
        hidden = hidden + attention.out(mixed.reshape(len(mixed), -1))
        return hidden + layer.feed_forward(hidden), weights
