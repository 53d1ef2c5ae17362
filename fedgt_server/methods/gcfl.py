"""GCFL+ at the coordinator (Xie et al. 2021, Algorithm 1 and section 4.3)."""

import math
from collections.abc import Mapping

import numpy as np

from fedgt_server.aggregation import averaged_step
from fedgt_server.clustering import minimum_cut, warping_distances
from fedgt_server.methods.base import (
    SAGE_DEFAULTS,
    MethodInfo,
    RoundReport,
    ServerMethod,
    join_groups,
    split_groups,
)
from shared.config import RunConfig
from shared.wire import GRADIENT_NORM, Arrays, Update

# As in the authors' code: rounds before the first split, and length of the series compared.
_ROUNDS_BEFORE_SPLIT = 20
_WINDOW = 5
# Their ε1 / ε2.
_STALLED = 0.5


class GCFL(ServerMethod):
    """Averages within clusters, and splits a cluster whose members diverge.

    A cluster is split if its mean update is short, ‖Σ_i n_i/n Δθ_i‖ < ε1, while a member's is
    long, max ‖Δθ_i‖ > ε2 (equation 4): the cluster stalls although its members still move. The
    authors' ε1 = 0.05 and ε2 = 0.1 fit the size and learning rate of their model: under Adam an
    update is about lr · √P long. Here the scale is the longest update, and only the ratio of the
    thresholds is kept: a cluster has stalled below half of it.
    """

    def __init__(self, config: RunConfig) -> None:
        self._round = 0
        self._robust = config.robust
        self._models: dict[int, Arrays] = {}  # by cluster
        self._cluster: dict[str, int] = {}  # by institution; cluster 0 if not listed
        self._norms: dict[str, list[float]] = {}  # ‖g_i‖ of the last rounds

    def begin(self, initial: Arrays) -> None:
        """Start with one cluster of all institutions, at θ^(1)."""
        self._models = {0: dict(initial)}

    def message(self, institution: str) -> Arrays:
        """Return the model of the institution's cluster."""
        return self._models[self._cluster.get(institution, 0)]

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Split stalled clusters, then average each: lines 5 to 14 of Algorithm 1."""
        self._round += 1
        for name, update in updates.items():
            self._cluster.setdefault(name, 0)
            # Where an institution keeps its gradient's norm, its update's tells as much.
            norm = update.metrics.get(GRADIENT_NORM)
            self._norms.setdefault(name, []).append(
                _length(update.arrays) if norm is None else norm
            )
            del self._norms[name][:-_WINDOW]
        split = False
        for cluster in sorted(self._models):
            members = sorted(name for name in updates if self._cluster[name] == cluster)
            if members and self._has_stalled({name: updates[name] for name in members}):
                self._split(cluster, members)
                split = True
        if split:
            # Norms before and after a split are not comparable.
            self._norms = {}
        for cluster in self._models:
            self._average(cluster, updates)
        groups = [
            sorted(name for name, at in self._cluster.items() if at == cluster)
            for cluster in sorted(self._models)
        ]
        return RoundReport({"clusters": groups})

    def state_dict(self) -> Arrays:
        """Return models of clusters, each institution's cluster, the norms and the round."""
        models = {
            f"{cluster}/{name}": array
            for cluster, model in self._models.items()
            for name, array in model.items()
        }
        return join_groups(
            {
                "model": models,
                "cluster": {name: np.array(at, np.int64) for name, at in self._cluster.items()},
                "norms": {name: np.array(norms) for name, norms in self._norms.items()},
                "round": {"": np.array(self._round, np.int64)},
            }
        )

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        models, clusters, norms, rounds = split_groups(saved, "model", "cluster", "norms", "round")
        self._models = {}
        for key, array in models.items():
            cluster, name = key.split("/", 1)
            self._models.setdefault(int(cluster), {})[name] = array
        self._cluster = {name: int(at) for name, at in clusters.items()}
        self._norms = {name: [float(norm) for norm in series] for name, series in norms.items()}
        self._round = int(rounds[""])

    def _has_stalled(self, members: Mapping[str, Update]) -> bool:
        """Return whether equation 4 holds; False until there is enough to compare."""
        if self._round <= _ROUNDS_BEFORE_SPLIT or len(members) <= 2:
            return False
        if any(len(self._norms.get(name, [])) < _WINDOW for name in members):
            return False
        updates = list(members.values())
        longest = max(_length(update.arrays) for update in updates)
        start = {name: np.zeros_like(array) for name, array in updates[0].arrays.items()}
        mean = _length(averaged_step(start, updates))
        return longest > 0.0 and mean < _STALLED * longest

    def _split(self, cluster: int, members: list[str]) -> None:
        """Split in two by the minimum cut of similarities: max(d) − d of the DTW distances d."""
        distances = warping_distances(np.array([self._norms[name] for name in members]))
        ours, theirs = minimum_cut(distances.max() - distances)
        leaving = min(ours, theirs, key=len)
        new = max(self._models) + 1
        self._models[new] = dict(self._models[cluster])
        for index in leaving:
            self._cluster[members[index]] = new

    def _average(self, cluster: int, updates: Mapping[str, Update]) -> None:
        members = sorted(name for name in updates if self._cluster[name] == cluster)
        if members:
            answers = [updates[name] for name in members]
            model = self._models[cluster]
            self._models[cluster] = averaged_step(model, answers, robust=self._robust)


def _length(arrays: Arrays) -> float:
    """Return the Euclidean length of all arrays together."""
    return math.sqrt(sum(float((array.astype(np.float64) ** 2).sum()) for array in arrays.values()))


INFO = MethodInfo(
    "GCFL+", "GraphSAGE, averaged in clusters of institutions", GCFL, defaults=SAGE_DEFAULTS
)
