"""Neighbours taken away, and given."""

import numpy as np
import pytest
import torch

from fedgt_client.augmentation import add_neighbours, hide_nodes
from fedgt_client.graph import SPLITS, UNLABELLED, Graph
from fedgt_client.model.graph_tensors import GraphTensors
from tests.fedgt_client.graphs import (
    dense_adjacency,
    directed_graph,
    two_groups,
    with_weights,
    without_links,
)

CPU = torch.device("cpu")


def chance(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_hidden_nodes_have_no_links_and_are_missed() -> None:
    graph = two_groups()
    adjacency = dense_adjacency(graph)
    tensors = GraphTensors.of(graph, CPU)
    impaired = hide_nodes(tensors, 0.25, chance())
    hidden = impaired.hidden.numpy()
    assert hidden.sum() == 10
    assert impaired.visible.tolist() == np.flatnonzero(~hidden).tolist()
    expected = adjacency * ~hidden[:, None] * ~hidden[None, :]
    neighbours, rows = impaired.graph.edge_index()
    found = np.zeros_like(adjacency)
    found[rows, neighbours] = 1.0
    assert (found == expected).all()
    assert impaired.missing.tolist() == (adjacency @ hidden).tolist()
    ids, linked = impaired.hidden_neighbours(torch.tensor([7, 3]))
    assert ids.tolist() == np.flatnonzero(hidden).tolist()
    assert (linked.numpy() == adjacency[[7, 3]][:, hidden].astype(bool)).all()


def test_chance_alone_says_who_is_hidden() -> None:
    tensors = GraphTensors.of(two_groups(), CPU)
    one, same, other = (hide_nodes(tensors, 0.25, chance(seed)).hidden for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize(
    "graph", [two_groups().subgraph(np.arange(1)), without_links(two_groups())]
)
def test_nothing_to_miss(graph: Graph) -> None:
    impaired = hide_nodes(GraphTensors.of(graph, CPU), 0.25, chance())
    assert not impaired.missing.any()
    assert len(impaired.visible) >= 1


@pytest.mark.parametrize("sparse", [False, True])
def test_an_augmented_graph_has_the_added_nodes_and_links(sparse: bool) -> None:
    graph = two_groups(sparse=sparse)
    counts = np.zeros(40, np.int64)
    counts[[3, 8]] = (2, 1)
    features = np.arange(18, dtype=np.float32).reshape(3, 6)
    augmented = add_neighbours(graph, counts, features)
    assert augmented.num_nodes == 43
    before, after = dense_adjacency(graph), dense_adjacency(augmented)
    assert (after[:40, :40] == before).all()
    added = np.zeros((40, 3))
    added[3, :2] = added[8, 2] = 1.0
    assert (after[:40, 40:] == added).all()
    assert (after[40:, :40] == added.T).all()
    assert not after[40:, 40:].any()
    assert (augmented.dense_features()[40:] == features).all()
    assert (augmented.dense_features()[:40] == graph.dense_features()).all()


def test_added_nodes_are_neither_learned_from_nor_measured() -> None:
    graph = two_groups()
    augmented = add_neighbours(graph, np.full(40, 2), np.ones((80, 6), np.float32))
    assert (augmented.labels[40:] == UNLABELLED).all()
    for split in SPLITS:
        assert getattr(augmented, split).dtype == np.bool_
        assert not getattr(augmented, split)[40:].any()
        assert (getattr(augmented, split)[:40] == getattr(graph, split)).all()


def test_arcs_of_one_way_stay_so() -> None:
    graph = directed_graph(12, 30, seed=1)
    augmented = add_neighbours(graph, np.ones(12, np.int64), np.ones((12, 1), np.float32))
    assert (dense_adjacency(augmented)[:12, :12] == dense_adjacency(graph)).all()


def test_nothing_to_add() -> None:
    graph = two_groups()
    augmented = add_neighbours(graph, np.zeros(40, np.int64), np.zeros((0, 6), np.float32))
    assert augmented.digest() == graph.digest()


def test_links_keep_their_weights_and_new_ones_have_the_mean() -> None:
    graph = with_weights(two_groups())
    assert graph.weights is not None
    augmented = add_neighbours(graph, np.eye(40, dtype=np.int64)[7], np.ones((1, 6), np.float32))
    after = dense_adjacency(augmented)
    assert (after[:40, :40] == dense_adjacency(graph)).all()
    assert after[7, 40] == after[40, 7] == pytest.approx(graph.weights.mean())
    tensors = GraphTensors.of(graph, CPU)
    visible = hide_nodes(tensors, 0.25, chance()).graph
    assert tensors.weights is not None
    assert visible.weights is not None
    full, part = torch.zeros(2, 40, 40)
    full[tuple(tensors.edge_index())] = tensors.weights
    part[tuple(visible.edge_index())] = visible.weights
    assert (part == full.where(part > 0, 0.0)).all()
    assert int((part > 0).sum()) == len(visible.neighbours)
