"""FedAvg at the coordinator (McMahan et al. 2017, Algorithm 1)."""

from collections.abc import Mapping

import numpy as np

from fedgt_server.aggregation import averaged_step
from fedgt_server.methods.base import SAGE_DEFAULTS, MethodInfo, RoundReport, ServerMethod
from shared.config import RunConfig
from shared.wire import Arrays, Update


class FedAvg(ServerMethod):
    """One model, the same for all institutions."""

    def __init__(self, config: RunConfig) -> None:
        self._model: Arrays = {}

    def begin(self, initial: Arrays) -> None:
        """Set θ^(1)."""
        self._model = dict(initial)

    def message(self, institution: str) -> Arrays:
        """Return θ."""
        return self._model

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Set θ ← θ + Σ_i n_i/n Δθ_i over the institutions that answered; all started from θ."""
        # In the order of names: sums of floats depend on the order.
        self._model = averaged_step(self._model, [updates[name] for name in sorted(updates)])
        return RoundReport()

    def state_dict(self) -> Arrays:
        """Return the model."""
        return dict(self._model)

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        self._model = {name: np.array(array) for name, array in saved.items()}


INFO = MethodInfo("FedAvg", "GraphSAGE, averaged", FedAvg, defaults=SAGE_DEFAULTS)
