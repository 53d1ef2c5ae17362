"""Local differential privacy of an upload."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from fedgt_client.privacy.mechanism import NoiseMechanism, Norm

VALUES = np.array([[-3.0, -0.5, 0.0], [0.25, 1.0, 9.0]], np.float32)
NORMS: tuple[Norm, ...] = ("coordinate", "l1", "l2")


def released(
    mechanism: NoiseMechanism, values: NDArray[np.float32] = VALUES, scale: float = 1.0
) -> NDArray[np.float32]:
    return mechanism.release({"a": values}, {"a": scale}, (1,))["a"]


@pytest.mark.parametrize(("clip", "noise"), [(1.0, 1e-4), (0.0, 1.0), (1.0, 0.0)])
def test_noise_that_hides_nothing_is_refused(clip: float, noise: float) -> None:
    with pytest.raises(ValueError, match="too little noise"):
        NoiseMechanism("coordinate", clip, noise, -1)


@pytest.mark.parametrize("norm", NORMS)
def test_no_input_shows_through_the_noise(norm: Norm) -> None:
    """A release that is not finite for some inputs alone would tell them from all others."""
    values = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45], np.float32)
    found = released(NoiseMechanism(norm, 1.0, 0.5, 0), values, scale=1e-3)
    assert np.isfinite(found).all()
    assert np.abs(found).max() < 0.05  # δ = 1 and noise, in thousandths


def test_nothing_to_release() -> None:
    mechanism = NoiseMechanism("l2", 1.0, 0.5, -1)
    assert mechanism.release({}, {}) == {}
    assert released(mechanism, np.zeros((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize(("clip", "noise", "epsilon"), [(1, 0.5, 4), (0.002, 0.001, 4), (1, 2, 1)])
def test_budget_of_a_coordinate(clip: float, noise: float, epsilon: float) -> None:
    part = NoiseMechanism("coordinate", clip, noise, -1).part({"a": VALUES})
    assert 1 / part.noise == pytest.approx(epsilon)
    assert (part.unit, part.mechanism, part.coordinates) == ("coordinate", "laplace", 6)


@pytest.mark.parametrize(("norm", "kind"), [("l1", "laplace"), ("l2", "gaussian")])
def test_budget_of_an_upload(norm: Norm, kind: str) -> None:
    part = NoiseMechanism(norm, 1.0, 4.0, -1).part({"b": VALUES, "a": VALUES})
    assert (part.arrays, part.unit, part.mechanism) == (("a", "b"), "upload", kind)
    assert part.noise == 2.0  # two uploads differ by 2δ at most


def test_clipped_elementwise() -> None:
    found = released(NoiseMechanism("coordinate", 1.0, 1e-3, 0))
    assert found == pytest.approx(np.array([[-1, -0.5, 0], [0.25, 1, 1]]), abs=0.02)
    assert found.dtype == np.float32
    assert VALUES[0, 0] == -3.0


@pytest.mark.parametrize(("norm", "order"), [("l1", 1), ("l2", 2)])
def test_clipped_as_a_whole(norm: Norm, order: int) -> None:
    mechanism = NoiseMechanism(norm, 2.0, 2e-3, 0)
    flat = VALUES.reshape(-1)
    expected = 2.0 * VALUES / np.linalg.norm(flat, order)
    assert released(mechanism) == pytest.approx(expected, abs=0.04)
    assert released(mechanism, VALUES / np.float32(100)) == pytest.approx(VALUES / 100, abs=0.04)
    # All arrays together, each in its own scale.
    two = mechanism.release({"a": VALUES, "b": 10 * VALUES}, {"a": 1.0, "b": 10.0})
    both = 2.0 * VALUES / np.linalg.norm(np.tile(flat, 2), order)
    assert two["a"] == pytest.approx(both, abs=0.04)
    assert two["b"] == pytest.approx(10 * both, abs=0.4)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("clip", [1.0, 0.3, 1e-3, 7.77, 1e-9])
def test_the_bound_holds_to_the_last_step_of_the_grid(norm: Norm, clip: float) -> None:
    """Whatever the values: the sensitivity that ε rests on is of the integers."""
    mechanism = NoiseMechanism(norm, clip, 0.5, -1)
    bound = int(clip * 2**20 / 0.5)
    rng = np.random.default_rng(0)
    for size in (1, 7, 10_000):
        for values in (rng.normal(size=size) * 1e6, rng.standard_cauchy(size), np.full(size, clip)):
            whole = np.abs(mechanism.clipped(values))
            reached = {"coordinate": whole.max(), "l1": whole.sum(), "l2": (whole**2).sum()}[norm]
            assert int(reached) <= (bound**2 if norm == "l2" else bound)


def test_scale_is_the_unit_of_clip_and_noise() -> None:
    """Release in a scale, and all is as if values had been divided by it."""
    mechanism = NoiseMechanism("coordinate", 1.0, 0.5, 3)
    large = released(mechanism, VALUES * 100, scale=100.0)
    assert large == pytest.approx(100 * released(mechanism), rel=1e-5)


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_noise_has_the_laplace_distribution_s_moments(noise: float) -> None:
    """Mean 0, variance 2λ², mean magnitude λ, and kurtosis far from a normal's."""
    zeros = np.zeros(200_000, np.float32)
    drawn = released(NoiseMechanism("coordinate", 1.0, noise, 0), zeros).astype(np.float64)
    assert drawn.mean() == pytest.approx(0.0, abs=0.02 * noise)
    assert drawn.var() == pytest.approx(2 * noise**2, rel=0.02)
    assert np.abs(drawn).mean() == pytest.approx(noise, rel=0.02)
    assert (drawn**4).mean() / drawn.var() ** 2 == pytest.approx(6.0, rel=0.1)


def test_gaussian_noise_has_its_deviation() -> None:
    zeros = np.zeros(100_000, np.float32)
    drawn = released(NoiseMechanism("l2", 1.0, 3.0, 0), zeros).astype(np.float64)
    assert drawn.std() == pytest.approx(3.0, rel=0.02)
    assert (drawn**4).mean() / drawn.var() ** 2 == pytest.approx(3.0, rel=0.1)


def test_likelihood_ratio_is_within_epsilon() -> None:
    """Between the two farthest inputs no output is more than e^ε times likelier."""
    mechanism = NoiseMechanism("coordinate", 1.0, 1.0, 0)
    low, high = (
        np.sort(released(mechanism, np.full(100_000, value, np.float32))) for value in (-50.0, 50.0)
    )
    for threshold in np.linspace(-2, 2, 9):
        share_low, share_high = ((drawn > threshold).mean() for drawn in (low, high))
        assert share_high <= math.exp(2.0) * share_low * 1.1


def test_seeded_draws_repeat_and_differ_by_draw() -> None:
    mechanism = NoiseMechanism("coordinate", 1.0, 0.5, 7)
    assert not mechanism.private
    first, second, *others = (
        mechanism.release({"a": VALUES}, {"a": 1.0}, draw)["a"].tolist()
        for draw in ((1, 2), (1, 2), (1, 3), (2, 2), (2, 1), (12,))
    )
    assert first == second
    assert first not in others
    assert (
        first
        != NoiseMechanism("coordinate", 1.0, 0.5, 8)
        .release({"a": VALUES}, {"a": 1.0}, (1, 2))["a"]
        .tolist()
    )


def test_seed_zero_is_a_seed() -> None:
    assert not NoiseMechanism("coordinate", 1.0, 0.5, 0).private


def test_unseeded_draws_differ() -> None:
    mechanism = NoiseMechanism("coordinate", 1.0, 0.5, -1)
    assert mechanism.private
    first, second = (released(mechanism).tolist() for _ in range(2))
    assert first != second
