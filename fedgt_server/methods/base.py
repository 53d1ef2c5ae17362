"""What every method's server half looks like."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.wire import Arrays, Profile, Update


@dataclass(frozen=True)
class RoundReport:
    """What a method wants the journal to say of a round."""

    facts: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class ServerMethod(ABC):
    """What the coordinator knows of every institution, and what it sends to each."""

    @abstractmethod
    def begin(self, initial: Arrays) -> None:
        """Take the starting point that all institutions share."""

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        """Names and shapes of the arrays that an update must hold, no more and no less."""
        return dict(profile.parameters)

    @abstractmethod
    def message(self, institution: str) -> Arrays:
        """What ``institution`` gets next; it may never have answered before."""

    @abstractmethod
    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Take a round's admitted updates, by institution."""

    @abstractmethod
    def state_dict(self) -> Arrays:
        """All that later rounds need."""

    @abstractmethod
    def load_state_dict(self, saved: Arrays) -> None:
        """The reverse of ``state_dict``."""
