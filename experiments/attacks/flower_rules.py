"""Flower's robust rules in the place of personalised averages, to compare with."""

from collections.abc import Callable

import numpy as np
from flwr.server.strategy.aggregate import (
    aggregate_krum,
    aggregate_median,
    aggregate_trimmed_avg,
)

from fedgt_server.aggregation import Array32
from fedgt_server.methods.fedgt import FedGT
from shared.config import RunConfig

# Of six institutions; one attacker or two.
_ATTACKERS = 2
Rule = Callable[[list[tuple[list[np.ndarray], int]]], list[np.ndarray]]

RULES: dict[str, Rule] = {
    "Flower's Krum": lambda models: aggregate_krum(models, _ATTACKERS, 0),
    "Flower's trimmed mean": lambda models: aggregate_trimmed_avg(models, 1 / 3),
    "Flower's median": aggregate_median,
}


class OneModel(FedGT):
    """FedGT with one model for all, chosen from the institutions' models by a rule of Flower's."""

    rule: Rule

    def _average(self, weights: Array32) -> None:
        names = self._institutions()
        models = [([self._models[name]], 1) for name in names]
        chosen = np.asarray(self.rule(models)[0], np.float32)
        self._sent.set_columns(names, 0, np.tile(chosen, (len(names), 1)))
        self._common, self._new = None, set()


def with_rule(name: str) -> Callable[[RunConfig], OneModel]:
    """Return the server half that goes by one of the rules."""

    def server(config: RunConfig) -> OneModel:
        method = OneModel(config)
        method.rule = RULES[name]
        return method

    return server
