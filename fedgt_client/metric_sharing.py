"""Which metrics leave an institution, and how exactly.

Accuracies are fractions: from a few of them, the number of validation nodes can be worked out, and
with models that always name the same class the number of nodes of each class. So they are rounded
to steps of several nodes, or get noise. Losses have no bounds: a model that is made to be wrong by
a million shows as many digits of a class's share as one likes. Except exactly they do not leave.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedgt_client.policy import Policy, ShareMetrics
from fedgt_client.privacy.discrete_noise import discrete_laplace
from fedgt_client.privacy.random_bits import RandomBits
from fedgt_client.privacy.release import Part
from shared.wire import METRICS_STEP, NUM_EXAMPLES, selection_metric

_SPLITS = ("val", "test")
# Of some nodes, between 0 and 1, where one node counts 1/n. Not means over classes: there a single
# node of a rare class is a large step, and a model that always names one class shows whether it
# occurs.
_SHARES = ("accuracy", "majority_share")
# A step is at least so many nodes, and so one of these: their number does not show by its size.
_NODES_A_STEP = 4
_STEPS = (0.05, 0.1, 0.2, 0.5)
_NOISED_STEP = 0.01
_GRID_BITS = 20
# Figures of the whole, rounded to so many digits.
_DIGITS = {NUM_EXAMPLES: 1, "seconds": 2, "gradient_norm": 2, "mask_sparsity": 1}


@dataclass(frozen=True)
class Shared:
    """The metrics of a round as they leave."""

    metrics: dict[str, float]
    part: Part | None = None  # those with noise, for the ledger


class MetricSharing:
    """What of an institution's metrics leaves in one run.

    Parameters
    ----------
    policy : what the institution allows; None: all of it, exactly
    nodes : number of validation and test nodes, as ``val`` and ``test``
    select_by : the metric that chooses the best round
    """

    def __init__(self, policy: Policy | None, nodes: Mapping[str, int], select_by: str) -> None:
        self._policy = policy
        self._nodes = nodes
        self._selection = selection_metric(select_by)

    @property
    def mode(self) -> ShareMetrics:
        """How metrics are shared."""
        return self._policy.share_metrics if self._policy else "exact"

    @property
    def chooses_itself(self) -> bool:
        """Whether the institution keeps its own best round: the coordinator is not told enough."""
        name = _plain_name(self._selection)
        if not self._is_listed(name):
            return True
        shareable = {"exact": True, "rounded": name in _SHARES, "noised": name == "accuracy"}
        return not shareable.get(self.mode, False)

    @property
    def told_step(self) -> float | None:
        """In which steps validation accuracy leaves; 0: exactly; None: not so that it can tell."""
        if self.mode == "exact":
            return 0.0
        step = self._step(self._nodes["val"])
        is_told = self.mode == "rounded" and self._is_listed("accuracy")
        return step if is_told and step else None

    def share(self, metrics: Mapping[str, float]) -> Shared:
        """Return what of a round's metrics may leave."""
        listed = {
            name: value
            for name, value in metrics.items()
            if math.isfinite(value) and self._is_listed(_plain_name(name))
        }
        if self.mode == "exact":
            return Shared(listed)
        if self.mode == "none":
            return Shared({})
        whole = {n: _significant(v, _DIGITS[n]) for n, v in listed.items() if n in _DIGITS}
        if self.mode == "noised":
            noised, part = self._noised(listed)
            return Shared(whole | noised, part)
        return Shared(whole | self._rounded(listed))

    def warnings(self, warnings: Sequence[str]) -> list[str]:
        """Return which warnings leave.

        Some count nodes or classes, and even that there is one tells of them: with ever other
        numbers of global nodes, when an institution has fewer nodes.
        """
        return list(warnings) if self.mode == "exact" else []

    def _is_listed(self, plain_name: str) -> bool:
        return self._policy is None or plain_name in self._policy.metrics

    def _rounded(self, listed: Mapping[str, float]) -> dict[str, float]:
        found: dict[str, float] = {}
        for split in _SPLITS:
            step = self._step(self._nodes[split])
            for name in _SHARES if step else ():
                if (value := listed.get(f"{split}_{name}")) is not None:
                    found[f"{split}_{name}"] = _to_step(value, step)
                    found[METRICS_STEP] = max(step, found.get(METRICS_STEP, 0.0))
        return found

    def _step(self, nodes: int) -> float:
        """Return the step for shares of so many nodes; 0: too few for any."""
        least = self._policy.metrics_step if self._policy else 0.0
        return next((s for s in _STEPS if s >= least and s * nodes >= _NODES_A_STEP), 0.0)

    def _noised(self, listed: Mapping[str, float]) -> tuple[dict[str, float], Part | None]:
        """Return accuracies with Laplace noise: one node's label changes one by 1/n at most."""
        assert self._policy is not None
        epsilon, found = self._policy.metrics_epsilon, dict[str, float]()
        for split in _SPLITS:
            name, nodes = f"{split}_accuracy", self._nodes[split]
            if name in listed and nodes:
                # In nodes, of which one label changes one: on a grid of 2^20 steps to one of noise.
                right = round(round(listed[name] * nodes) * epsilon * 2**_GRID_BITS)
                noise = int(discrete_laplace(_GRID_BITS, 1, RandomBits.secret())[0])
                noisy = (right + noise) / (epsilon * 2**_GRID_BITS * nodes)
                found[name] = min(max(_to_step(noisy, _NOISED_STEP), 0.0), 1.0)
        if not found:
            return {}, None
        # A node is in one of the splits: its label shows in one of the values.
        part = Part(
            arrays=tuple(sorted(found)),
            coordinates=len(found),
            unit="label",
            mechanism="laplace",
            noise=1.0 / epsilon,
        )
        return found, part


def _plain_name(metric: str) -> str:
    """Return the name of a metric without its split."""
    for split in _SPLITS:
        metric = metric.removeprefix(f"{split}_")
    return metric


def _to_step(value: float, step: float) -> float:
    return round(round(value / step) * step, 6)


def _significant(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")
