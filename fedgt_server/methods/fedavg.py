"""FedAvg at the coordinator (McMahan et al. 2017, Algorithm 1)."""

from collections.abc import Mapping

import numpy as np

from fedgt_server.aggregation import averaged_step, trimmed_step
from fedgt_server.methods.base import (
    SAGE_DEFAULTS,
    MethodInfo,
    RoundReport,
    ServerMethod,
    join_groups,
    split_groups,
)
from fedgt_server.robust import Wary
from shared.config import RunConfig
from shared.wire import KEPT_OWN, Arrays, Update

_WARY = "wary"  # the names of parameters have no '/'


class FedAvg(ServerMethod):
    """One model, the same for all institutions."""

    def __init__(self, config: RunConfig) -> None:
        self._model: Arrays = {}
        self._robust = config.robust
        self._wary = Wary()

    def begin(self, initial: Arrays) -> None:
        """Set θ^(1)."""
        self._model = dict(initial)

    def message(self, institution: str) -> Arrays:
        """Return θ."""
        return self._model

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Set θ ← θ + Σ_i n_i/n Δθ_i over the institutions that answered; all started from θ.

        With ``robust``, a trimmed mean while institutions were worse off with what they were sent.
        """
        # In the order of names: sums of floats depend on the order.
        answers = [updates[name] for name in sorted(updates)]
        for name in sorted(updates):
            if updates[name].metrics.get(KEPT_OWN) == 1.0:
                self._wary.complain(name)
        if self._robust and self._wary:
            self._model = trimmed_step(self._model, answers)
        else:
            self._model = averaged_step(self._model, answers, robust=self._robust)
        self._wary.next_round()
        return RoundReport()

    def state_dict(self) -> Arrays:
        """Return the model, and who was worse off with it."""
        return dict(self._model) | join_groups({_WARY: self._wary.state_dict()})

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        (wary,) = split_groups(saved, _WARY)
        self._wary = Wary(wary)
        self._model = {
            name: np.array(array)
            for name, array in saved.items()
            if not name.startswith(f"{_WARY}/")
        }


INFO = MethodInfo("FedAvg", "GraphSAGE, averaged", FedAvg, defaults=SAGE_DEFAULTS)
