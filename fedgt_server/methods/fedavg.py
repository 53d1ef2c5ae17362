"""FedAvg at the coordinator (McMahan et al. 2017, Algorithm 1)."""

from collections.abc import Mapping

import numpy as np

from fedgt_server.aggregation import averaged_step
from fedgt_server.methods.base import RoundReport, ServerMethod
from shared.wire import Arrays, Update


class FedAvg(ServerMethod):
    """Keeps one model, the same for all."""

    def __init__(self) -> None:
        self._model: Arrays = {}

    def begin(self, initial: Arrays) -> None:
        """θ^(1)."""
        self._model = dict(initial)

    def message(self, institution: str) -> Arrays:
        """θ."""
        return self._model

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """θ ← θ + Σ_i n_i/n Δθ_i, over the institutions that answered; all started from θ."""
        # In the order of names: sums of floats depend on the order.
        self._model = averaged_step(self._model, [updates[name] for name in sorted(updates)])
        return RoundReport()

    def state_dict(self) -> Arrays:
        """The model."""
        return dict(self._model)

    def load_state_dict(self, saved: Arrays) -> None:
        """The reverse of ``state_dict``."""
        self._model = {name: np.array(array) for name, array in saved.items()}
