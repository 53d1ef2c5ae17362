"""What every method's client half looks like."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from fedgt_client.privacy import Release
from shared.files import Array

Arrays = dict[str, Array]


@dataclass(frozen=True)
class LocalResult:
    """What a round at the institution came to."""

    upload: Arrays  # all that leaves the institution besides the metrics
    metrics: dict[str, float]
    warnings: list[str] = field(default_factory=list)
    released: Release | None = None  # what of the upload is protected, and how


class ClientMethod(ABC):
    """A model, how it trains here, and what it must remember between rounds."""

    @abstractmethod
    def initial_arrays(self) -> Arrays:
        """The seeded starting point, the same at every institution."""

    @abstractmethod
    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Take over what the coordinator sent, train, evaluate."""

    @abstractmethod
    def state_dict(self) -> Arrays:
        """All that the next round needs of this one; see ``state.OPTIMISER`` for names."""

    @abstractmethod
    def load_state_dict(self, saved: Arrays) -> None:
        """The reverse of ``state_dict``."""
