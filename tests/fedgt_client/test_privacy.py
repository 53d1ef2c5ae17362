"""Local differential privacy."""

import math
from pathlib import Path

import numpy as np
import pytest

from fedgt_client.privacy import Budget, LaplaceMechanism, Ledger, Release

VALUES = np.array([[-3.0, -0.5, 0.0], [0.25, 1.0, 9.0]], np.float32)


def test_budget_of_a_coordinate() -> None:
    assert LaplaceMechanism(1.0, 0.5, -1).epsilon == 4.0
    # The paper's numbers: the same ratio.
    assert LaplaceMechanism(0.002, 0.001, -1).epsilon == pytest.approx(4.0)
    assert LaplaceMechanism(1.0, 2.0, -1).epsilon == 1.0


def test_clipped_elementwise() -> None:
    almost_exact = LaplaceMechanism(1.0, 1e-9, 0)
    found = almost_exact.release(VALUES, draw=(1,))
    assert found == pytest.approx(np.array([[-1, -0.5, 0], [0.25, 1, 1]]), abs=1e-6)
    assert found.dtype == np.float32
    assert found.shape == VALUES.shape
    assert VALUES[0, 0] == -3.0


def test_scale_is_the_unit_of_clip_and_noise() -> None:
    """Release in a scale, and all is as if values had been divided by it."""
    mechanism = LaplaceMechanism(1.0, 0.5, 3)
    large = mechanism.release(VALUES * 100, scale=100.0, draw=(1,))
    assert large == pytest.approx(100 * mechanism.release(VALUES, draw=(1,)), rel=1e-5)
    small = LaplaceMechanism(1.0, 1e-9, 3).release(VALUES, scale=0.1, draw=(1,))
    assert small == pytest.approx(np.clip(VALUES, -0.1, 0.1), abs=1e-6)


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_noise_has_the_laplace_distribution_s_moments(noise: float) -> None:
    """Mean 0, variance 2λ², mean magnitude λ, and kurtosis far from a normal's."""
    zeros = np.zeros(200_000, np.float32)
    drawn = LaplaceMechanism(1.0, noise, 0).release(zeros, draw=(1, 2)).astype(np.float64)
    assert drawn.mean() == pytest.approx(0.0, abs=0.02 * noise)
    assert drawn.var() == pytest.approx(2 * noise**2, rel=0.02)
    assert np.abs(drawn).mean() == pytest.approx(noise, rel=0.02)
    assert (drawn**4).mean() / drawn.var() ** 2 == pytest.approx(6.0, rel=0.1)


def test_likelihood_ratio_is_within_epsilon() -> None:
    """Between the two farthest inputs no output is more than e^ε times likelier."""
    mechanism = LaplaceMechanism(1.0, 1.0, 0)
    low, high = (
        np.sort(mechanism.release(np.full(100_000, value, np.float32), draw=(0,)))
        for value in (-50.0, 50.0)
    )
    for threshold in np.linspace(-2, 2, 9):
        share_low, share_high = ((drawn > threshold).mean() for drawn in (low, high))
        assert share_high <= math.exp(mechanism.epsilon) * share_low * 1.1


def test_seeded_draws_repeat_and_differ_by_draw() -> None:
    mechanism = LaplaceMechanism(1.0, 0.5, 7)
    assert not mechanism.private
    first = mechanism.release(VALUES, draw=(1, 2))
    assert first.tolist() == mechanism.release(VALUES, draw=(1, 2)).tolist()
    for other in ((1, 3), (2, 2), (2, 1)):
        assert first.tolist() != mechanism.release(VALUES, draw=other).tolist()
    other_seed = LaplaceMechanism(1.0, 0.5, 8)
    assert first.tolist() != other_seed.release(VALUES, draw=(1, 2)).tolist()


def test_seed_zero_is_a_seed() -> None:
    assert not LaplaceMechanism(1.0, 0.5, 0).private


def test_ledger_goes_on_after_a_restart(tmp_path: Path) -> None:
    release = Release(4.0, 144, private=False)
    Ledger(tmp_path / "a" / "privacy.json").record(release)
    spent = Ledger(tmp_path / "a" / "privacy.json").record(release)
    assert spent == {
        "epsilon_coordinate": 4.0,
        "epsilon_coordinate_total": 8.0,
        "epsilon_total": 4.0 * 144 * 2,
        "epsilon_private": 0.0,
    }


def test_unseeded_draws_differ() -> None:
    mechanism = LaplaceMechanism(1.0, 0.5, -1)
    assert mechanism.private
    first, second = (mechanism.release(VALUES, draw=(1,)).tolist() for _ in range(2))
    assert first != second


def test_basic_composition_by_hand() -> None:
    """3 sets of 10 nodes of width 128, 100 rounds, ε = 4: 3840 coordinates."""
    budget = Budget(per_coordinate=4.0, coordinates=3840, uploads=100)
    assert budget.coordinate_total() == 400.0
    assert budget.total == 1_536_000.0


def test_advanced_composition_by_hand() -> None:
    """ε = 0.01, k = 10000, δ' = 1e-5: 0.01 √(20000 · 11.5129) + 100 (e^0.01 − 1) = 5.8035."""
    budget = Budget(per_coordinate=0.01, coordinates=1, uploads=10_000)
    assert budget.coordinate_total() == pytest.approx(4.79853 + 1.00502, abs=1e-4)
    assert budget.total == pytest.approx(100.0)


def test_the_smaller_bound_is_taken() -> None:
    # For one upload of a small ε basic composition is better: 0.1 < 0.1 √(2 · 11.5) + ….
    assert Budget(0.1, 1, 1).coordinate_total() == pytest.approx(0.1)
    assert Budget(0.1, 1, 0).coordinate_total() == 0.0
    for epsilon in (0.05, 0.5, 1.0, 4.0):
        for uploads in (1, 10, 1000):
            assert Budget(epsilon, 1, uploads).coordinate_total() <= epsilon * uploads
