"""Sampled neighbours, by hand and by count."""

import numpy as np
import pytest
import torch

from fedgt_client.model.blocks import message_block, sampled_neighbours
from fedgt_client.model.gcn import GCN
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.masked_gcn import MaskedGCN
from fedgt_client.model.sage import GraphSAGE
from tests.fedgt_client.graphs import dense_adjacency, two_groups, with_weights, without_links

CPU = torch.device("cpu")


def test_all_neighbours() -> None:
    graph = two_groups()
    sources, rows = sampled_neighbours(GraphTensors.of(graph, CPU), torch.tensor([7, 2]), None)
    for position, node in enumerate((7, 2)):
        expected = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]
        assert sources[rows == position].tolist() == expected.tolist()


def test_drawn_neighbours_are_neighbours_each_once_and_as_many_as_there_are() -> None:
    graph = two_groups()
    tensors, nodes = GraphTensors.of(graph, CPU), torch.arange(40).flip(0)
    sources, rows = sampled_neighbours(tensors, nodes, 5)
    assert len(set(zip(sources.tolist(), rows.tolist(), strict=True))) == len(sources)
    assert (dense_adjacency(graph)[nodes[rows].numpy(), sources.numpy()] == 1).all()
    expected = np.minimum(np.diff(graph.indptr)[nodes.numpy()], 5)
    assert torch.bincount(rows, minlength=40).tolist() == expected.tolist()


def test_every_neighbour_is_drawn_as_often() -> None:
    tensors = GraphTensors.of(two_groups(), CPU)
    draws = [sampled_neighbours(tensors, torch.tensor([3]), 2)[0] for _ in range(600)]
    counts = torch.bincount(torch.cat(draws), minlength=40)
    degree = int(tensors.indptr.diff()[3])
    found = counts[counts > 0]
    assert len(found) == degree
    assert ((found - 1200 / degree).abs() < 6 * (1200 / degree) ** 0.5).all()


def test_a_hop_lists_its_targets_first() -> None:
    tensors, nodes = GraphTensors.of(two_groups(), CPU), torch.tensor([9, 4, 30])
    step = message_block(tensors, nodes, 3)
    assert step.inputs[: step.targets].tolist() == [9, 4, 30]
    assert len(step.inputs.unique()) == len(step.inputs)
    sources, targets = step.edge_index
    for source, target in zip(step.inputs[sources], step.inputs[targets], strict=True):
        assert dense_adjacency(two_groups())[int(target), int(source)] == 1
    assert (
        len(message_block(GraphTensors.of(without_links(two_groups()), CPU), nodes, 3).inputs) == 3
    )


def test_scores_do_not_depend_on_the_batch() -> None:
    tensors = GraphTensors.of(two_groups(), CPU)
    sage = GraphSAGE(6, 2, width=8, layers=2, samples=3, dropout=0.5).eval()
    gcn = GCN(6, 2, width=8, layers=2, dropout=0.5).eval()
    nodes = torch.tensor([5, 0, 31])
    for model in (sage, gcn):
        whole = model(tensors, tensors.all_nodes())
        torch.testing.assert_close(model(tensors, nodes), whole[nodes])


def test_sage_draws_neighbours_in_training_alone() -> None:
    tensors = GraphTensors.of(two_groups(), CPU)
    nodes, most = tensors.all_nodes(), int(tensors.indptr.diff().max())
    few, all_of_them = (
        GraphSAGE(6, 2, width=8, layers=2, samples=samples, dropout=0.0) for samples in (1, most)
    )
    assert not torch.equal(few.train()(tensors, nodes), few(tensors, nodes))
    assert torch.equal(few.eval()(tensors, nodes), few(tensors, nodes))
    expected = all_of_them.eval()(tensors, nodes)
    torch.testing.assert_close(all_of_them.train()(tensors, nodes), expected)


def test_sage_by_hand() -> None:
    """W_neigh mean(h_u) + b + W_self h_v, for one layer."""
    graph = two_groups()
    tensors = GraphTensors.of(graph, CPU)
    model = GraphSAGE(6, 2, width=8, layers=1, samples=3, dropout=0.0).eval()
    weights = dict(model.named_parameters())
    adjacency = torch.from_numpy(dense_adjacency(graph)).float()
    features = tensors.dense_features()
    means = adjacency @ features / adjacency.sum(1, keepdim=True).clamp_min(1)
    expected = means @ weights["layers.0.neighbours"] + weights["layers.0.bias"]
    expected += features @ weights["layers.0.own"]
    torch.testing.assert_close(model(tensors, tensors.all_nodes()), expected)


@pytest.mark.parametrize("model", ["gcn", "masked"])
def test_a_weighted_convolution_by_hand(model: str) -> None:
    """D^-1/2 (A / mean + I) D^-1/2 X W + b, for one layer; the weights' unit does not matter."""
    graph = with_weights(two_groups())
    assert graph.weights is not None
    adjacency = torch.from_numpy(dense_adjacency(graph) / graph.weights.mean()).float()
    adjacency += torch.eye(40)
    scale = adjacency.sum(1).rsqrt()
    means = scale[:, None] * adjacency * scale @ GraphTensors.of(graph, CPU).dense_features()
    for unit in (1.0, 1e6):
        tensors = GraphTensors.of(with_weights(two_groups(), unit=unit), CPU)
        if model == "gcn":
            gcn = GCN(6, 2, width=8, layers=1, dropout=0.0).eval()
            expected = means @ dict(gcn.named_parameters())["layers.0.lin.weight"].t()
            found = gcn(tensors, tensors.all_nodes())
        else:
            masked = MaskedGCN(6, 2, width=4, layers=1, dropout=0.0, threshold=0.0).eval()
            expected = means @ dict(masked.named_parameters())["layers.0.weight"]
            expected = expected.relu() @ dict(masked.named_parameters())["head.weight"]
            found = masked(tensors, tensors.all_nodes())
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
