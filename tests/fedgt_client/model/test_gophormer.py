"""Ego-graphs and their proximity, by hand."""

import torch

from fedgt_client.model.gnn import GraphTensors
from fedgt_client.model.gophormer import EgoLayer, Gophormer, ego_graphs, proximity
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


def test_masked_members_do_not_count_and_proximity_does() -> None:
    layer = EgoLayer(8, 2, 0.0).eval()
    hidden, closeness = torch.randn(1, 4, 8), torch.rand(1, 3, 4, 4)
    mask = torch.tensor([[True, True, False, True]])
    before = layer(hidden, closeness, mask)
    changed = hidden.clone()
    changed[0, 2] += 5.0
    torch.testing.assert_close(layer(changed, closeness, mask)[:, :2], before[:, :2])
    with torch.no_grad():
        layer.proximity.fill_(3.0)
    assert not torch.allclose(layer(hidden, closeness, mask), before)


def test_scores_do_not_depend_on_who_else_is_asked() -> None:
    model = Gophormer(6, 2, width=8, layers=2, heads=2, samples=20, dropout=0.5).eval()
    nodes = torch.tensor([5, 0])
    whole = model(TENSORS, TENSORS.all_nodes())
    torch.testing.assert_close(model(TENSORS, nodes), whole[nodes], rtol=1e-3, atol=1e-4)
