"""Checks of what institutions send: may one take part, can an update be averaged?"""

from collections.abc import Mapping, Sequence

import numpy as np

from shared.text import plain_line
from shared.wire import Arrays, Profile, Update

# Of a weight that nobody has trained yet: initialisation draws values around 1 and below.
_LARGEST_INITIAL = 100.0
# Of anything in an update: no training gets there, and sums of such values stay finite.
_LARGEST = 1e6


def profile_mismatch(agreed: Profile, other: Profile, agreed_with: str) -> str | None:
    """Describe how ``other`` differs from the agreed profile; return None where it does not.

    ``agreed_with`` names the institution whose profile was taken for all.
    """
    if agreed.version != other.version:
        return f"has FedGT {other.version} installed, the coordinator {agreed.version}"
    for what, ours, theirs in (
        ("feature columns", agreed.features, other.features),
        ("classes", agreed.classes, other.classes),
    ):
        if ours != theirs:
            return f"has other {what} than {agreed_with}: {_list_mismatch(ours, theirs)}"
    if agreed.parameters != other.parameters:
        found = _shape_mismatch(agreed.parameters, other.parameters)
        return f"has another model than {agreed_with}: {found}"
    return None


def update_error(update: Update, expected: Mapping[str, Sequence[int]]) -> str | None:
    """Describe why an update cannot be averaged; return None where it can.

    ``expected`` has the shape of every array that the method needs.
    """
    if set(update.arrays) != set(expected):
        return f"it comes {_set_mismatch(set(expected), set(update.arrays))}"
    for name, array in update.arrays.items():
        if list(array.shape) != list(expected[name]):
            return f"{name} has shape {list(array.shape)}, expected {list(expected[name])}"
        if array.dtype != np.float32:
            return f"{name} is of type {array.dtype}, expected float32"
        if not np.isfinite(array).all():
            return f"{name} holds values that are not finite"
        if array.size and max(array.max(), -array.min()) > _LARGEST:
            return f"{name} holds values beyond ±{_LARGEST:g}"
    return None


def initial_error(initial: Arrays, parameters: Mapping[str, Sequence[int]]) -> str | None:
    """Describe why a model cannot be the starting point of all; return None where it can."""
    if problem := update_error(Update("", initial, {}), parameters):
        return problem
    for name, array in initial.items():
        if array.size and np.abs(array).max() > _LARGEST_INITIAL:
            return f"{name} holds values beyond ±{_LARGEST_INITIAL:g}"
    return None


def _list_mismatch(ours: list[str], theirs: list[str]) -> str:
    if len(ours) != len(theirs):
        missing = [name for name in ours if name not in set(theirs)]
        extra = [name for name in theirs if name not in set(ours)]
        detail = "".join(
            f", {word} {_quoted(names)}"
            for word, names in (("without", missing), ("with", extra))
            if names
        )
        return f"{len(theirs)} instead of {len(ours)}{detail}"
    index = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
    return f"number {index + 1} is {_quoted([theirs[index]])}, not {_quoted([ours[index]])}"


def _shape_mismatch(ours: dict[str, list[int]], theirs: dict[str, list[int]]) -> str:
    if set(ours) != set(theirs):
        return _set_mismatch(set(ours), set(theirs))
    name = next(name for name in ours if ours[name] != theirs[name])
    return f"{name} has shape {theirs[name]}, not {ours[name]}"


def _set_mismatch(expected: set[str], found: set[str]) -> str:
    missing, extra = sorted(expected - found), sorted(found - expected)
    parts = [f"without {_quoted(missing)}"] if missing else []
    return " and ".join([*parts, *([f"with {_quoted(extra)}"] if extra else [])])


def _quoted(names: list[str], limit: int = 3) -> str:
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(f"'{plain_line(name, 80)}'" for name in names[:limit]) + rest
