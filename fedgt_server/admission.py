"""Is this institution fit to take part, and this update fit to be averaged?"""

from collections.abc import Mapping, Sequence

import numpy as np

from shared.wire import Profile, Update


def difference(agreed: Profile, other: Profile, whose: str) -> str | None:
    """In words, how ``other`` differs from what was agreed; None where it does not.

    ``whose`` names the institution whose profile was taken for all.
    """
    if agreed.version != other.version:
        return f"has FedGT {other.version} installed, the coordinator {agreed.version}"
    for what, ours, theirs in (
        ("feature columns", agreed.features, other.features),
        ("classes", agreed.classes, other.classes),
    ):
        if ours != theirs:
            return f"has other {what} than {whose}: {_lists_differ(ours, theirs)}"
    if agreed.parameters != other.parameters:
        found = _shapes_differ(agreed.parameters, other.parameters)
        return f"has another model than {whose}: {found}"
    return None


def fault(update: Update, expected: Mapping[str, Sequence[int]]) -> str | None:
    """In words, why an update cannot be averaged; None where it can.

    ``expected`` has the shape of every array that the method needs.
    """
    if set(update.arrays) != set(expected):
        return f"it comes {_set_difference(set(expected), set(update.arrays))}"
    for name, array in update.arrays.items():
        if list(array.shape) != list(expected[name]):
            return f"{name} has shape {list(array.shape)}, expected {list(expected[name])}"
        if array.dtype != np.float32:
            return f"{name} is of type {array.dtype}, expected float32"
        if not np.isfinite(array).all():
            return f"{name} holds values that are not finite"
    return None


def _lists_differ(ours: list[str], theirs: list[str]) -> str:
    if len(ours) != len(theirs):
        missing = [name for name in ours if name not in set(theirs)]
        surplus = [name for name in theirs if name not in set(ours)]
        detail = "".join(
            f", {word} {_some(names)}"
            for word, names in (("without", missing), ("with", surplus))
            if names
        )
        return f"{len(theirs)} instead of {len(ours)}{detail}"
    place = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
    return f"number {place + 1} is '{theirs[place]}', not '{ours[place]}'"


def _shapes_differ(ours: dict[str, list[int]], theirs: dict[str, list[int]]) -> str:
    if set(ours) != set(theirs):
        return _set_difference(set(ours), set(theirs))
    name = next(name for name in ours if ours[name] != theirs[name])
    return f"{name} has shape {theirs[name]}, not {ours[name]}"


def _set_difference(expected: set[str], found: set[str]) -> str:
    missing, surplus = sorted(expected - found), sorted(found - expected)
    parts = [f"without {_some(missing)}"] if missing else []
    return " and ".join([*parts, *([f"with {_some(surplus)}"] if surplus else [])])


def _some(names: list[str], limit: int = 3) -> str:
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(f"'{name}'" for name in names[:limit]) + rest
