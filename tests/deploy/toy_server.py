"""A toy method's server half: the median of the updates."""

from collections.abc import Mapping

import numpy as np

from fedgt_server.methods.base import BASELINE_DEFAULTS, MethodInfo, RoundReport
from fedgt_server.methods.fedavg import FedAvg
from shared.wire import Update


class FedMedian(FedAvg):
    """Takes the coordinate-wise median instead of the mean."""

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Set θ ← θ + median_i Δθ_i."""
        self._model = {
            name: value + np.median([update.arrays[name] for update in updates.values()], axis=0)
            for name, value in self._model.items()
        }
        return RoundReport({"updates": len(updates)})


INFO = MethodInfo("Toy", "a perceptron, median of updates", FedMedian, defaults=BASELINE_DEFAULTS)
