"""The interface of every method's client half."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from fedgt_client.graph import Graph
from fedgt_client.privacy.release import Release
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.files import Array
from shared.wire import WEIGHTS

Arrays = dict[str, Array]


@dataclass(frozen=True)
class LocalResult:
    """The result of a round at the institution."""

    upload: Arrays  # all that leaves the institution besides the metrics
    metrics: dict[str, float]
    warnings: list[str] = field(default_factory=list)
    released: Release | None = None  # which part of the upload is protected, and how


class ClientMethod(ABC):
    """A model, how it trains here, and the state it keeps between rounds."""

    # Whether ldp 'all' protects every update that this method uploads.
    private_updates: ClassVar[bool] = False
    # Arrays that may leave the institution; the server half declares the same.
    uploads: ClassVar[tuple[str, ...]] = (WEIGHTS,)
    # Metrics besides those that every method reports.
    metrics: ClassVar[tuple[str, ...]] = ()
    # Steps of accuracy by which it may tell that a model is worse here; 0: it may by losses.
    accuracy_step: float = 0.0

    @abstractmethod
    def __init__(self, graph: Graph, config: RunConfig, institution: str) -> None: ...

    @abstractmethod
    def initial_arrays(self) -> Arrays:
        """Return the seeded starting point, the same at every institution."""

    @abstractmethod
    def fit(self, received: Arrays, round_number: int) -> LocalResult:
        """Load what the coordinator sent, train, evaluate."""

    @abstractmethod
    def state_dict(self) -> Arrays:
        """Return all that the next round needs.

        The names of arrays that only training needs start with ``state.OPTIMISER``.
        """

    @abstractmethod
    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""

    def predict(self, nodes: NDArray[np.int64]) -> Array:
        """Return class scores (logits) as evaluation computes them, shape (len(nodes), classes)."""
        raise FedGTError(f"{type(self).__name__} cannot predict: its class has no 'predict'")
