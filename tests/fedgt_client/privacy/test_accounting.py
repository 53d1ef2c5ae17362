"""Composition of privacy budgets."""

import math
import random
import time

import pytest

from fedgt_client.privacy.accounting import (
    DELTA,
    Loss,
    basic,
    composed,
    gaussian_noise,
    over_coordinates,
)


def laplace(epsilon: float, uploads: int) -> dict[Loss, int]:
    return {Loss("laplace", 1 / epsilon): uploads}


def test_nothing_spends_nothing() -> None:
    assert composed({}) == basic({}) == over_coordinates({}) == 0.0


def test_stated_delta() -> None:
    assert DELTA == 1e-5


@pytest.mark.parametrize(
    ("epsilon", "uploads", "tight", "added"),
    [(0.1, 100, 4.220, 10.0), (0.5, 100, 28.502, 50.0), (4.0, 100, 359.692, 400.0)],
)
def test_tight_composition_beside_basic(
    epsilon: float, uploads: int, tight: float, added: float
) -> None:
    assert composed(laplace(epsilon, uploads)) == pytest.approx(tight, abs=2e-3)
    assert basic(laplace(epsilon, uploads)) == pytest.approx(added)


def test_one_upload_costs_its_epsilon() -> None:
    assert composed(laplace(4.0, 1)) == 4.0


def test_never_above_basic_and_never_falling() -> None:
    for epsilon in (0.01, 0.3, 1.0, 7.0, 30.0):
        totals = [composed(laplace(epsilon, k)) for k in (1, 2, 5, 20, 100)]
        assert totals == sorted(totals)
        assert all(t <= epsilon * k + 1e-9 for t, k in zip(totals, (1, 2, 5, 20, 100), strict=True))


def test_uploads_of_different_epsilon_are_summed() -> None:
    """Later uploads with more noise do not lower what was spent."""
    before = composed(laplace(4.0, 50))
    mixed = {**laplace(4.0, 50), **laplace(0.001, 50)}
    assert composed(mixed) >= before
    assert basic(mixed) == pytest.approx(200.05)


def test_gaussian_by_hand() -> None:
    """100 releases with σ = 10 are one with σ = 1: ε = 4.377 at δ = 1e-5 (Balle, Wang 2018)."""
    assert composed({Loss("gaussian", 10.0): 100}) == pytest.approx(4.377, abs=2e-3)
    assert basic({Loss("gaussian", 10.0): 100}) == math.inf


def test_over_all_coordinates() -> None:
    """3840 values, 100 times, ε = 4: near k (ε − 1 + e^−ε), the mean loss, below k ε."""
    values = laplace(4.0, 384_000)
    assert basic(values) == 1_536_000.0
    mean_loss = 384_000 * (4 - 1 + math.exp(-4))
    assert mean_loss < over_coordinates(values) < 1.01 * mean_loss


@pytest.mark.parametrize("epsilon", [1e-9, 1e3, 2e6, 1e12])
def test_absurd_strengths_take_no_time(epsilon: float) -> None:
    """Noise of 1e-6: a distribution over all losses would not fit into memory."""
    started = time.process_time()
    assert composed(laplace(epsilon, 1000)) <= 1000 * epsilon * (1 + 1e-9)
    assert time.process_time() - started < 5.0


def test_many_different_strengths_are_rounded_up() -> None:
    rng = random.Random(0)
    counts = {Loss("laplace", 1 / (0.1 + rng.random())): 1 for _ in range(300)}
    exact_parts = sum(sorted(1 / loss.noise for loss in counts)[-10:])
    started = time.process_time()
    total = composed(counts)
    assert time.process_time() - started < 5.0
    assert exact_parts < total < basic(counts)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
@pytest.mark.parametrize("steps", [1, 100, 3000])
def test_calibrated_steps_cost_what_was_asked_for(epsilon: float, steps: int) -> None:
    noise = gaussian_noise(epsilon, steps)
    found = composed({Loss("gaussian", noise): steps})
    assert 0.99 * epsilon < found <= epsilon
