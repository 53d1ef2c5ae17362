"""Metrics of an update: which values a sender can mean, by name."""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from shared.errors import FedGTError

MOST_METRICS = 64
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


class Range(NamedTuple):
    """Which values a metric can have."""

    low: float
    high: float
    whole: bool = False


_SHARE = Range(0.0, 1.0)
_SECONDS = Range(0.0, 1e9)
# More nodes than any institution has; and no sum of such counts loses the small ones.
_COUNT = Range(0.0, 1e9, whole=True)
_LENGTH = Range(0.0, 1e12)
_ANY = Range(-1e18, 1e18)

_RANGES = {
    "num_examples": _COUNT,
    "skipped_steps": _COUNT,
    "gradient_norm": _LENGTH,
    "seconds": _SECONDS,
    "mask_sparsity": _SHARE,
    "kept_own": _SHARE,
    "own_weight": _SHARE,
    "metrics_step": _SHARE,
}
# On validation and test nodes, by the end of the name.
_MEASURED = ("val_", "test_")
_SHARES = ("accuracy", "majority_share", "macro_f1", "roc_auc", "average_precision")


def metric_range(name: str) -> Range:
    """Return which values a metric can have; wide where the name is not known."""
    if name in _RANGES:
        return _RANGES[name]
    if name.startswith(_MEASURED) and name.endswith(_SHARES):
        return _SHARE
    if name.startswith("epsilon") or name.endswith("log_loss"):
        return Range(0.0, _ANY.high)
    return _ANY


def checked_metrics(metrics: Mapping[str, object]) -> dict[str, float]:
    """Return metrics that came from another party.

    Raises
    ------
    FedGTError
        When there are too many, or one is not a number that its name can have.
    """
    if len(metrics) > MOST_METRICS:
        raise FedGTError(f"a reply holds {len(metrics)} metrics, at most {MOST_METRICS} are read")
    return {_checked_name(name): _checked(name, value) for name, value in metrics.items()}


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise FedGTError("a metric's name should be at most 64 of a-z, 0-9 and '_'")
    return name


def _checked(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FedGTError(f"metric {name} is a {type(value).__name__}, expected a number")
    low, high, whole = metric_range(name)
    if not low <= value <= high:  # false for NaN, and defined for any integer
        raise FedGTError(f"metric {name} is {_shown(value)}, expected {low:g} to {high:g}")
    if whole and value != math.floor(value):
        raise FedGTError(f"metric {name} is {_shown(value)}, expected a whole number")
    return float(value)


def _shown(value: float) -> str:
    """Return a number in a few characters; an integer may have thousands of digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(min(max(value, -(10**20)), 10**20))
