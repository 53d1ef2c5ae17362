"""What a number of uploads spends of the privacy budget, by composition theorems."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fedgt_client.privacy.release import Mechanism

# Probability with which a bound may fail; every ε here but those of 'basic' holds up to it.
DELTA = 1e-5
# Where ε of a single release is larger, tight composition gains nothing.
_LARGE = 20.0
# Different noise strengths that are composed exactly; more are rounded to fewer.
_KINDS = 16
# Cells of a privacy-loss distribution: bounds its memory and time. With four times as many, ε of
# 100 rounds with the default noise is 359.684 in place of 359.692.
_CELLS = 2**15
_FINEST = 1e-4  # width of a cell


@dataclass(frozen=True, order=True)
class Loss:
    """One release with noise; ``noise`` as in ``Part``."""

    mechanism: Mechanism
    noise: float


Counts = Mapping[Loss, int]  # how often each was released


def composed(counts: Counts, delta: float = DELTA) -> float:
    """Return ε of all releases of one unit together, by privacy-loss distributions.

    Loss distributions are composed numerically (Koskela et al. 2020; Doroshenko et al. 2022), by
    Google's dp-accounting, rounded so that ε is never too small.
    """
    return _composed(tuple(sorted(_at_most(counts, _KINDS).items())), delta)


def basic(counts: Counts) -> float:
    """Return ε by basic composition, the sum; infinite with Gaussian noise, which has no pure ε."""
    if any(loss.mechanism == "gaussian" for loss in counts):
        return math.inf
    return sum(k / loss.noise for loss, k in counts.items())


def gaussian_noise(epsilon: float, steps: int, delta: float = DELTA) -> float:
    """Return σ / sensitivity with which ``steps`` Gaussian releases together cost (ε, δ).

    Analytic, not by a tail bound (Balle and Wang 2018, theorem 8), by Google's dp-accounting.
    """
    from dp_accounting.pld import accountant, common  # as below

    asked = common.DifferentialPrivacyParameters(epsilon, delta)
    # A little more: ``composed`` rounds up, and all steps must fit a budget of ε.
    return 1.0001 * float(accountant.get_smallest_gaussian_noise(asked, steps))


def over_coordinates(counts: Counts, delta: float = DELTA) -> float:
    """Return ε of everything that was released, ``counts`` being of all values of all uploads.

    Far too many for a distribution: by Rényi divergences (Mironov 2017, table II).
    """
    if not counts:
        return 0.0
    orders: list[float] = [1.0 + 10.0 ** (power / 8) for power in range(-48, 17)]
    bounds = [
        sum(k * _renyi(loss, order) for loss, k in counts.items())
        + math.log(1 / delta) / (order - 1)
        for order in orders
    ]
    return min(basic(counts), *bounds)


def _renyi(loss: Loss, order: float) -> float:
    """Return the Rényi divergence of a release between its two farthest inputs."""
    if loss.mechanism == "gaussian":
        return order / (2 * loss.noise**2)
    epsilon = 1 / loss.noise
    # log(α/(2α−1) e^{(α−1)ε} + (α−1)/(2α−1) e^{−αε}), without overflow.
    lead = (order - 1) * epsilon
    rest = (order - 1) / order * math.exp(-lead - order * epsilon)
    return (lead + math.log(order / (2 * order - 1)) + math.log1p(rest)) / (order - 1)


@lru_cache(maxsize=256)
def _composed(counts: tuple[tuple[Loss, int], ...], delta: float) -> float:
    laplace = {loss: k for loss, k in counts if loss.mechanism in ("laplace", "pure")}
    large = {
        loss: k
        for loss, k in laplace.items()
        if loss.mechanism == "pure" or 1 / loss.noise > _LARGE
    }
    small = {loss: k for loss, k in laplace.items() if loss not in large}
    gaussian = [(loss.noise, k) for loss, k in counts if loss.mechanism == "gaussian"]
    if not gaussian and sum(laplace.values()) <= 1:
        return basic(laplace)
    tight = _by_distributions(small, gaussian, delta) if small or gaussian else 0.0
    if not gaussian:
        tight = min(tight, basic(small))
    return basic(large) + tight


def _by_distributions(
    laplace: Counts, gaussian: Iterable[tuple[float, int]], delta: float
) -> float:
    # Takes half a second to import: absl, attrs, dm-tree, scipy.
    from dp_accounting.pld import privacy_loss_distribution as pld

    # Gaussian losses add up to a Gaussian one, of 1/σ² = Σ k/σ_k².
    precision = sum(k / noise**2 for noise, k in gaussian)
    reach = basic(laplace) + precision / 2 + 10 * math.sqrt(precision)
    # Of few different sizes: a release's distribution serves many rounds.
    interval = _FINEST * 2.0 ** max(0, math.ceil(math.log2(2 * reach / _CELLS / _FINEST)))
    parts = [_laplace_loss(loss.noise, interval).self_compose(k) for loss, k in laplace.items()]
    if precision:
        deviation = 1 / math.sqrt(precision)
        parts.append(pld.from_gaussian_mechanism(deviation, value_discretization_interval=interval))
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return float(total.get_epsilon_for_delta(delta))


@lru_cache(maxsize=32)
def _laplace_loss(noise: float, interval: float) -> Any:
    """Return the privacy-loss distribution of one release, in cells of ``interval``."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    return pld.from_laplace_mechanism(noise, value_discretization_interval=interval)


def _at_most(counts: Counts, kinds: int) -> dict[Loss, int]:
    """Return counts of few different losses, none of which is smaller than what it stands for."""
    digits = 3
    while len(counts) > kinds and digits >= 0:
        rounded: dict[Loss, int] = {}
        for loss, k in counts.items():
            weaker = Loss(loss.mechanism, _rounded_down(loss.noise, digits))
            rounded[weaker] = rounded.get(weaker, 0) + k
        counts, digits = rounded, digits - 1
    return dict(counts)


def _rounded_down(value: float, digits: int) -> float:
    unit = 10.0 ** (math.floor(math.log10(value)) - digits)
    return math.floor(value / unit) * unit or value
