"""Ego-graphs and their proximity, by hand."""

from typing import cast

import pytest
import torch
from torch import Tensor

from fedgt_client.model.gophormer import (
    EgoLayer,
    Gophormer,
    compact,
    ego_graphs,
    proximity,
)
from fedgt_client.model.graph_tensors import GraphTensors
from tests.fedgt_client.graphs import dense_adjacency, two_groups, without_links

TENSORS = GraphTensors.of(two_groups(), torch.device("cpu"))
ADJACENCY = torch.from_numpy(dense_adjacency(two_groups())).float()


def test_members_are_neighbours_of_those_of_the_hop_before() -> None:
    nodes = torch.tensor([3, 17])
    members, mask = ego_graphs(TENSORS, nodes, 2)
    assert members.shape == mask.shape == (2, 1 + 2 + 4)
    assert members[:, 0].tolist() == [3, 17]
    for row in range(2):
        for child, parent in ((1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2)):
            if mask[row, child]:
                assert ADJACENCY[members[row, parent], members[row, child]] == 1


def test_a_node_alone_is_its_own_ego_graph() -> None:
    alone = GraphTensors.of(without_links(two_groups()), torch.device("cpu"))
    members, mask = ego_graphs(alone, torch.tensor([5]), 3)
    assert mask[0].tolist() == [True] + [False] * 12
    assert members[0].tolist() == [5] * 13
    assert proximity(alone, members, mask)[0, :, 0, 0].tolist() == [1.0, 1.0, 1.0]


def test_proximity_is_of_powers_of_the_normalised_adjacency() -> None:
    """On an ego-graph that holds every node, powers are those of the whole graph."""
    members = TENSORS.all_nodes()[None]
    found = proximity(TENSORS, members, torch.ones_like(members, dtype=torch.bool))[0]
    whole = ADJACENCY + torch.eye(40)
    scale = whole.sum(1).rsqrt()
    normalised = scale[:, None] * whole * scale
    torch.testing.assert_close(found[0], torch.eye(40))
    torch.testing.assert_close(found[1], normalised)
    torch.testing.assert_close(found[2], normalised @ normalised)


def padded(layer: EgoLayer, hidden: Tensor, closeness: Tensor, mask: Tensor) -> Tensor:
    """Equation 6 written out over whole sequences, padding and all: (b, t, d) to (b, t, d)."""
    heads, width = layer.proximity.shape[0], hidden.shape[2]
    parts = layer.query_key_value(layer.before_attention(hidden)).split(width, dim=2)
    query, key, value = (part.unflatten(2, (heads, -1)).transpose(1, 2) for part in parts)
    scores = query @ key.transpose(2, 3) / (width / heads) ** 0.5
    scores = scores + torch.einsum("hp,bpij->bhij", layer.proximity, closeness)
    scores = scores.masked_fill(~mask[:, None, None, :], -torch.inf)
    mixed = (scores.softmax(3) @ value).transpose(1, 2).flatten(2)
    hidden = hidden + layer.output(mixed)
    fed: Tensor = hidden + layer.feed(layer.before_feed(hidden))
    return fed


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_what_is_not_computed_does_not_count(layers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither padding, nor what the last layer makes of other members than the node itself."""
    monkeypatch.setattr("fedgt_client.model.gophormer._CHUNK", 16)
    model = Gophormer(6, 2, width=8, layers=layers, heads=2, samples=8, dropout=0.0)
    egos = [cast(EgoLayer, layer) for layer in model.layers]
    with torch.no_grad():
        for layer in egos:
            layer.proximity.normal_()
    nodes = TENSORS.all_nodes()
    torch.manual_seed(4)
    members, mask = ego_graphs(TENSORS, nodes, 8)
    assert not mask.all()
    closeness = proximity(TENSORS, members, mask)
    hidden = model.encoder(TENSORS.dense_features()[members])
    for layer in egos:
        hidden = padded(layer, hidden, closeness, mask)
    expected = model.head(model.norm(hidden[:, 0]))
    for mode in (model.train(), model.eval()):
        torch.manual_seed(4)
        torch.testing.assert_close(mode(TENSORS, nodes), expected, rtol=1e-5, atol=1e-5)


def test_real_members_first() -> None:
    members = torch.tensor([[5, 5, 7, 5], [6, 8, 6, 6]])
    mask = torch.tensor([[True, False, True, False], [True, True, False, False]])
    found, real = compact(members, mask)
    assert found.tolist() == [[5, 7], [6, 8]]
    assert real.all()


def test_masked_members_do_not_count_and_proximity_does() -> None:
    layer = EgoLayer(8, 2, 0.0).eval()
    tokens, place, closeness = torch.randn(4, 8), torch.arange(4)[None], torch.rand(1, 3, 4, 4)
    mask = torch.tensor([[True, True, False, True]])
    before = layer(tokens, place, closeness, mask)
    assert before.shape == (3, 8)
    changed = tokens.clone()
    changed[2] += 5.0
    torch.testing.assert_close(layer(changed, place, closeness, mask), before)
    first = layer(tokens, place, closeness, mask, first=1)
    torch.testing.assert_close(first, before[:1])
    with torch.no_grad():
        layer.proximity.fill_(3.0)
    assert not torch.allclose(layer(tokens, place, closeness, mask), before)


def test_scores_do_not_depend_on_who_else_is_asked() -> None:
    model = Gophormer(6, 2, width=8, layers=2, heads=2, samples=20, dropout=0.5).eval()
    nodes = torch.tensor([5, 0])
    whole = model(TENSORS, TENSORS.all_nodes())
    torch.testing.assert_close(model(TENSORS, nodes), whole[nodes], rtol=1e-3, atol=1e-4)
