"""Sparse and dense features are the same features."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from fedgt_client.graph import Graph
from fedgt_client.model.features import Bags
from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.inputs import InputEncoder, NodeInputs
from tests.fedgt_client.small_graphs import small_graph

CPU = torch.device("cpu")
# An empty row first, in between and last.
FEATURES = np.array(
    [[0, 0, 0, 0], [3, 0, 4, 0], [0, 0, 0, 0], [0, -2, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]],
    np.float32,
)
ENCODING = np.arange(12, dtype=np.float32).reshape(6, 2)


def graph(*, sparse: bool) -> Graph:
    features = csr_array(FEATURES) if sparse else FEATURES
    names = ("a", "b", "c", "d")
    return Graph(**{**vars(small_graph(6, [])), "features": features, "feature_names": names})


def inputs(*, sparse: bool) -> NodeInputs:
    return GraphTensors.of(graph(sparse=sparse), CPU, ENCODING).inputs()


def unfolded(features: torch.Tensor | Bags) -> torch.Tensor:
    if not isinstance(features, Bags):
        return features
    rows = torch.zeros(len(features.offsets) - 1, 4)
    for row in range(len(rows)):
        place = slice(int(features.offsets[row]), int(features.offsets[row + 1]))
        rows[row, features.columns[place]] = features.values[place]
    return rows


@pytest.mark.parametrize("sparse", [True, False])
def test_unit_length(sparse: bool) -> None:
    features = unfolded(inputs(sparse=sparse).features)
    assert features[1].tolist() == pytest.approx([0.6, 0, 0.8, 0])
    assert features[3].tolist() == [0, -1, 0, 0]
    assert features.norm(dim=1).tolist() == pytest.approx([0, 1, 0, 1, 1, 0])
    assert isinstance(inputs(sparse=sparse).features, Bags) is sparse


def test_encoder_gives_the_same_for_both() -> None:
    encoder = InputEncoder(4, 2, 8, dropout=0.5).eval()
    dense, sparse = (encoder(inputs(sparse=sparse)) for sparse in (False, True))
    assert torch.allclose(dense, sparse, atol=1e-6)
    gradients = [
        torch.autograd.grad(hidden.square().sum(), encoder.feature_weight)[0]
        for hidden in (dense, sparse)
    ]
    assert torch.allclose(gradients[0], gradients[1], atol=1e-5)


@pytest.mark.parametrize("nodes", [[4, 1], [0], [5, 0, 2], [], [1, 1, 3], [0, 1, 2, 3, 4, 5]])
def test_rows_are_those_of_the_dense_matrix(nodes: list[int]) -> None:
    chosen = torch.tensor(nodes, dtype=torch.long)
    dense, sparse = (inputs(sparse=sparse).rows(chosen) for sparse in (False, True))
    assert torch.equal(unfolded(sparse.features), unfolded(dense.features))
    assert sparse.encoding.tolist() == dense.encoding.tolist()
    assert len(sparse.encoding) == len(nodes)
    encoder = InputEncoder(4, 2, 8, dropout=0.0)
    assert torch.allclose(encoder(dense), encoder(sparse), atol=1e-6)


def test_a_hidden_node_is_hidden_whole_and_in_training_only() -> None:
    encoder = InputEncoder(4, 2, 8, dropout=0.0, node_dropout=0.25)
    inputs = NodeInputs(torch.rand(4000, 4) + 0.1, torch.ones(4000, 2))
    whole, some = encoder.eval()(inputs), encoder.train()(inputs)
    hidden = (some == 0).all(dim=1)
    assert hidden.float().mean().item() == pytest.approx(0.25, abs=0.03)
    torch.testing.assert_close(some[~hidden], whole[~hidden] / 0.75)


def test_dropout_only_in_training() -> None:
    encoder = InputEncoder(4, 2, 8, dropout=0.5)
    for sparse in (True, False):
        encoder.train()
        noisy = {tuple(encoder(inputs(sparse=sparse))[4].tolist()) for _ in range(20)}
        assert len(noisy) > 5
        encoder.eval()
        still = {tuple(encoder(inputs(sparse=sparse))[4].tolist()) for _ in range(3)}
        assert len(still) == 1


def test_signs_are_flipped_for_whole_dimensions() -> None:
    torch.manual_seed(0)
    given = inputs(sparse=False)
    seen = set()
    for _ in range(40):
        flipped = given.with_flipped_signs()
        signs = torch.sign(flipped.encoding[1:] / given.encoding[1:])
        assert (signs == signs[0]).all()
        assert flipped.encoding.abs().tolist() == given.encoding.abs().tolist()
        seen.add(tuple(signs[0].tolist()))
    assert len(seen) == 4


def test_read_only_arrays_are_fine() -> None:
    frozen = ENCODING.copy()
    frozen.flags.writeable = False
    GraphTensors.of(graph(sparse=True), CPU, frozen).encoding.add_(1.0)
    assert frozen.tolist() == ENCODING.tolist()
