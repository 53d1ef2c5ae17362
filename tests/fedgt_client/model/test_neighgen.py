"""NeighGen's losses, by hand."""

import torch

from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.model.neighgen import (
    NeighGen,
    degree_loss,
    matching_loss,
    nearest_gradients,
    squared_distances,
)
from tests.fedgt_client.graphs import two_groups

TENSORS = GraphTensors.of(two_groups(), torch.device("cpu"))


def test_shapes_and_unit_rows() -> None:
    model = NeighGen(6, width=8, samples=3, dropout=0.0).eval()
    latent = model.latent(TENSORS, torch.tensor([4, 9, 4]))
    assert latent.shape == (3, 8)
    torch.testing.assert_close(latent[0], latent[2])
    counts, rows = model.counts(latent), model.features(latent, torch.randn(3, 8))
    assert (counts > 0).all()
    assert rows.shape == (3, 6)
    torch.testing.assert_close(rows.norm(dim=1), torch.ones(3))


def test_the_noise_makes_other_neighbours() -> None:
    model = NeighGen(6, width=8, samples=3, dropout=0.0).eval()
    latent = model.latent(TENSORS, torch.tensor([4, 4]))
    one, other = model.features(latent, torch.randn(2, 8))
    assert not torch.allclose(one, other)


def test_degree_loss() -> None:
    """Half a square within 1, linear beyond: (0.5 · 0.25 + 2.5) / 2."""
    loss = degree_loss(torch.tensor([1.5, 0.0]), torch.tensor([1, 3]))
    assert loss.item() == (0.125 + 2.5) / 2


def test_rows_are_matched_with_hidden_neighbours_alone() -> None:
    hidden = torch.tensor([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0]])
    # Nearest: (1, 0) or (0, 1) at 1, (1, 0) at 9; the last one's only neighbour is at 25 + 16.
    generated = torch.tensor([[1.0, 1.0], [4.0, 0.0], [0.0, 1.0]])
    linked = torch.tensor([[True, True, False], [True, True, False], [False, False, True]])
    loss = matching_loss(generated, hidden, linked)
    torch.testing.assert_close(loss, torch.tensor(1.0 + 9.0 + 41.0))


def test_gradients_are_those_of_the_nearest() -> None:
    generated = torch.randn(7, 6, requires_grad=True)
    squared_distances(generated, TENSORS.dense_features()).amin(dim=1).sum().backward()
    found = nearest_gradients(generated.detach(), TENSORS.dense_features())
    torch.testing.assert_close(found, generated.grad)


def test_a_gradient_gives_a_node_s_features_away() -> None:
    """What the method warns of: its receiver knows x̃, and so x_u = x̃ − g / 2."""
    generated = torch.randn(7, 6)
    worked_out = generated - nearest_gradients(generated, TENSORS.dense_features()) / 2.0
    assert squared_distances(worked_out, TENSORS.dense_features()).amin(dim=1).max() < 1e-5
