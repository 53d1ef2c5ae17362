"""Attacks find what is there to find, and nothing where there is nothing."""

import numpy as np
import pytest
import torch

from deploy.audit.attacks import (
    auc,
    first_gradient,
    guess_shares,
    guess_shares_blindly,
    mean_error,
    single_input,
)
from shared.config import RunConfig


@pytest.mark.parametrize("decoupled", [True, False])
def test_the_first_step_of_adam_is_undone(decoupled: bool) -> None:
    config = RunConfig.build({"weight-decay": 0.3, "decoupled-weight-decay": decoupled})
    generator = torch.Generator().manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(50, generator=generator, dtype=torch.float64))
    start = weight.detach().numpy().copy()
    gradient = 1e-3 * torch.randn(50, generator=generator, dtype=torch.float64)
    weight.grad = gradient.clone()
    torch.optim.Adam(
        [weight],
        lr=config.lr,
        weight_decay=config.weight_decay,
        decoupled_weight_decay=decoupled,
        eps=config.adam_epsilon,
    ).step()
    if decoupled:
        found = first_gradient(weight.detach().numpy() - start, start, config)
        assert found == pytest.approx(gradient.numpy(), rel=1e-3)
    else:  # the decay is larger than the gradient, and saturates the step
        found = first_gradient(weight.detach().numpy() - start, start, config)
        assert np.isfinite(found).all()


def test_shares_are_guessed_from_clues_and_not_from_noise() -> None:
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(5), size=12)
    clues = np.stack([3 * shares - 1, rng.normal(size=shares.shape)], axis=2)
    assert mean_error(guess_shares(clues, shares), shares) < 0.01
    blind = mean_error(guess_shares_blindly(shares), shares)
    lost = mean_error(guess_shares(rng.normal(size=clues.shape), shares), shares)
    assert lost > 0.8 * blind > 0.05


def test_blind_guesses_use_the_others_alone() -> None:
    shares = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    assert guess_shares_blindly(shares).tolist() == [[0.0, 1.0], [0.5, 0.5], [0.5, 0.5]]


def test_auc() -> None:
    members = np.array([True, True, False, False])
    assert auc(np.array([4.0, 3.0, 2.0, 1.0]), members) == 1.0
    assert auc(np.array([1.0, 2.0, 3.0, 4.0]), members) == 0.0
    assert auc(np.zeros(4), members) == 0.5
    assert auc(np.zeros(2), np.array([True, True])) is None


def test_the_gradient_of_one_node_is_its_features() -> None:
    rng = np.random.default_rng(0)
    features = rng.random(30)
    assert single_input(np.outer(features, rng.normal(size=8)), features) == pytest.approx(1.0)
    assert single_input(rng.normal(size=(30, 8)), features) < 0.6
