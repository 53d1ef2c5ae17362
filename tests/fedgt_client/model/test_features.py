"""Sparse features are the dense ones, for every operation and every model."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch_geometric.nn import GCNConv, SAGEConv
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from fedgt_client.model.blocks import message_block
from fedgt_client.model.features import (
    Bags,
    Features,
    dense,
    dropout,
    project,
    rows_of,
    scale,
    scale_columns,
    unit_features,
    with_columns,
)
from fedgt_client.model.gcn import GCN
from fedgt_client.model.gophormer import Gophormer
from fedgt_client.model.graph_model import GraphModel
from fedgt_client.model.graph_tensors import GraphTensors, normalised_arcs
from fedgt_client.model.graphgps import GraphGPS
from fedgt_client.model.masked_gcn import MaskedGCN
from fedgt_client.model.sage import GraphSAGE, MeanConv
from tests.fedgt_client.graphs import two_groups

CPU = torch.device("cpu")
SPARSE = two_groups(sparse=True)
DENSE = replace(SPARSE, features=SPARSE.dense_features())
BOTH = unit_features(DENSE, CPU), unit_features(SPARSE, CPU)
SOME = torch.tensor([7, 0, 7, 39])

OPERATIONS: dict[str, Callable[[Features], Features]] = {
    "rows": lambda features: rows_of(features, SOME),
    "no rows": lambda features: rows_of(features, SOME[:0]),
    "scaled": lambda features: scale(features, -2.5),
    "further columns": lambda features: with_columns(features, torch.arange(80.0).view(40, 2)),
    "further columns of nobody": lambda features: with_columns(
        rows_of(features, SOME[:0]), torch.empty(0, 2)
    ),
    "columns times factors": lambda features: scale_columns(features, torch.arange(6.0) - 2.0),
    "dropout in evaluation": lambda features: dropout(features, 0.5, training=False),
    "projection": lambda features: project(features, torch.arange(18.0).view(6, 3)),
    "projection, transposed": lambda features: project(features, torch.arange(18.0).view(3, 6).t()),
}

MODELS: dict[str, Callable[[], GraphModel]] = {
    "sage": lambda: GraphSAGE(6, 2, width=8, layers=2, samples=3, dropout=0.5),
    "gcn": lambda: GCN(6, 2, width=8, layers=2, dropout=0.5),
    "fedpub": lambda: MaskedGCN(6, 2, width=8, layers=2, dropout=0.5, threshold=1e-3),
    "graphgps": lambda: GraphGPS(4, 2, width=8, layers=2, heads=2, dimensions=2, dropout=0.5),
    "gophormer": lambda: Gophormer(6, 2, width=8, layers=1, heads=2, samples=30, dropout=0.5),
}


def test_one_is_sparse() -> None:
    assert [isinstance(features, Bags) for features in BOTH] == [False, True]
    assert 0 < len(SPARSE.dense_features().nonzero()[0]) < SPARSE.dense_features().size


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    expected, found = (dense(OPERATIONS[name](features)) for features in BOTH)
    torch.testing.assert_close(found, expected)


def test_dropout_in_training_keeps_the_mean_and_drops_as_many() -> None:
    torch.manual_seed(0)
    draws = torch.stack([dense(dropout(BOTH[1], 0.25, training=True)) for _ in range(2000)])
    present = dense(BOTH[1]) > 0
    torch.testing.assert_close(draws.mean(0), dense(BOTH[1]), atol=0.05, rtol=0.0)
    assert (draws > 0)[:, present].float().mean().item() == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_models_give_the_same_scores_and_gradients(name: str) -> None:
    torch.manual_seed(0)
    model, results = MODELS[name]().eval(), []
    for graph in (DENSE, SPARSE):
        scores = model(GraphTensors.of(graph, CPU), SOME)
        results.append(
            (scores, torch.autograd.grad(scores.square().sum(), list(model.parameters())))
        )
    torch.testing.assert_close(results[1], results[0])


def test_the_graph_convolution_is_pygs() -> None:
    model, graph = GCN(6, 3, width=8, layers=1, dropout=0.0), GraphTensors.of(DENSE, CPU)
    theirs = GCNConv(6, 3)
    theirs.load_state_dict(model.layers[0].state_dict())
    expected = theirs(graph.dense_features(), graph.edge_index())
    torch.testing.assert_close(model(graph, graph.all_nodes()), expected)


def test_a_seed_makes_the_graph_convolution_that_it_makes_of_pygs() -> None:
    torch.manual_seed(3)
    ours = GCN(6, 3, width=8, layers=2, dropout=0.0).state_dict()
    torch.manual_seed(3)
    theirs = [GCNConv(6, 8), GCNConv(8, 3)]
    for index, layer in enumerate(theirs):
        for name, value in layer.state_dict().items():
            assert torch.equal(ours[f"layers.{index}.{name}"], value)


@pytest.mark.parametrize("weights", [None, torch.tensor([0.5, 2.0, 2.0, 1.0])])
def test_the_normalised_arcs_are_pygs(weights: torch.Tensor | None) -> None:
    """Node 3 has no links but its own."""
    arcs = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    *ends, values = normalised_arcs(arcs, weights, 4)
    expected_ends, expected = gcn_norm(arcs, weights, num_nodes=4)
    assert torch.equal(torch.stack(ends), expected_ends)
    torch.testing.assert_close(values, expected)
    assert float(values[-1]) == 1.0


def test_the_mean_convolution_is_pygs() -> None:
    mine, theirs = MeanConv(6, 3), SAGEConv(6, 3, aggr="mean")
    with torch.no_grad():
        theirs.lin_l.weight.copy_(mine.neighbours.t())
        theirs.lin_l.bias.copy_(mine.bias)
        theirs.lin_r.weight.copy_(mine.own.t())
    step = message_block(GraphTensors.of(DENSE, CPU), SOME[1:], 2)
    inputs = dense(rows_of(BOTH[0], step.inputs))
    expected = theirs((inputs, inputs[: step.targets]), step.edge_index)
    torch.testing.assert_close(mine(inputs, step), expected)
