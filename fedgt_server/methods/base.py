"""The interface of every method's server half, and what a method says about itself."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shared.config import RunConfig, Scalar
from shared.files import release_after_reading
from shared.wire import WEIGHTS, Arrays, Profile, Update


@dataclass(frozen=True)
class RoundReport:
    """What a method adds to the journal of a round."""

    facts: dict[str, Any] = field(default_factory=dict)  # JSON values; RoundEvent checks them
    warnings: list[str] = field(default_factory=list)


class ServerMethod(ABC):
    """The state of every institution at the coordinator, and what it sends to each."""

    @abstractmethod
    def __init__(self, config: RunConfig) -> None: ...

    @abstractmethod
    def begin(self, initial: Arrays) -> None:
        """Set the starting point that all institutions share."""

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        """Return names and shapes of the arrays that an update must hold, no more and no less."""
        return dict(profile.parameters)

    @abstractmethod
    def message(self, institution: str) -> Arrays:
        """Return what ``institution`` gets next; it may never have answered before."""

    def receive(self, institution: str, update: Update) -> Update:
        """Take in an admitted update when it comes; return what ``aggregate`` needs of it.

        A round's updates together may not fit into memory. A method that can take them in one by
        one returns them without arrays; by default they are kept as they are. What is sent does
        not change before ``aggregate``; another update of the same round replaces the first.
        """
        return update

    def shorten(self, institution: str, update: Update, factor: float) -> Update:
        """Multiply the change of an update that was received; return what ``aggregate`` needs."""
        scaled = {name: array * np.float32(factor) for name, array in update.arrays.items()}
        return replace(update, arrays=scaled)

    def refuse(self, institution: str) -> None:  # noqa: B027 (most have nothing to undo)
        """Undo what ``receive`` did: the update is not among those of ``aggregate``."""

    @abstractmethod
    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Aggregate a round's admitted updates, by institution, as ``receive`` returned them."""

    @abstractmethod
    def state_dict(self) -> Arrays:
        """Return all that later rounds need; valid until the next round."""

    @abstractmethod
    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""


@dataclass(frozen=True)
class MethodInfo:
    """A method as the command line, the tables and the coordinator see it."""

    title: str
    description: str
    server: type[ServerMethod]
    defaults: Mapping[str, Scalar] = field(default_factory=dict)  # what differs from RunConfig's
    uploads: tuple[str, ...] = (WEIGHTS,)  # arrays that may leave; as in the client half
    private_updates: bool = False  # whether ldp 'all' protects every update; as in the client half


# Common to all baselines: nothing to protect, Adam and full precision as in the paper.
BASELINE_DEFAULTS: dict[str, Scalar] = {
    "hidden": 128,
    "layers": 2,
    "ldp": "off",
    "lr": 0.01,
    "lr-schedule": "constant",
    "adam-epsilon": 1e-8,
    "weight-decay": 5e-4,
    "decoupled-weight-decay": False,
    "wire-precision": "float32",
}
SAGE_DEFAULTS: dict[str, Scalar] = BASELINE_DEFAULTS | {"samples": 5}


def join_groups(groups: Mapping[str, Mapping[str, np.ndarray]]) -> Arrays:
    """Return groups of named arrays as one dictionary with names ``group/name``."""
    return {
        f"{group}/{name}": array
        for group, arrays in groups.items()
        for name, array in arrays.items()
    }


def split_groups(saved: Arrays, *groups: str) -> list[Arrays]:
    """Return copies of the arrays of each of ``groups``, by name in sorted order."""
    return [
        {name: np.array(array) for name, array in group_items(saved, group)} for group in groups
    ]


def group_items(saved: Arrays, group: str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and arrays of a group, sorted by name, each of which is read once."""
    prefix = f"{group}/"
    keys = sorted(key for key in saved if key.startswith(prefix))
    arrays = release_after_reading(saved[key] for key in keys)
    for key, array in zip(keys, arrays, strict=True):
        yield key.removeprefix(prefix), array
