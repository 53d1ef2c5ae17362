"""The interface of every method's server half, and what a method says about itself."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shared.config import RunConfig, Scalar
from shared.wire import Arrays, Profile, Update


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

    @abstractmethod
    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Aggregate a round's admitted updates, by institution."""

    @abstractmethod
    def state_dict(self) -> Arrays:
        """Return all that later rounds need."""

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
    uploads: tuple[str, ...] = ()  # arrays that may leave an institution besides the weights
    private_updates: bool = False  # whether ldp 'all' protects every update; as in the client half


# Common to all baselines: nothing to protect, Adam and full precision as in the paper.
BASELINE_DEFAULTS: dict[str, Scalar] = {
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
    found: dict[str, Arrays] = {group: {} for group in groups}
    for key, array in sorted(saved.items()):
        group, name = key.split("/", 1)
        if group in found:
            found[group][name] = np.array(array)
    return list(found.values())
