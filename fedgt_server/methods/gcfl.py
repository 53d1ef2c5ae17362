"""GCFL+ at the coordinator (Xie et al. 2021, Algorithm 1 and section 4.3)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedgt_server.aggregation import averaged_step, example_weights
from fedgt_server.clustering import minimum_cut, warping_distances
from fedgt_server.methods.base import RoundReport, ServerMethod
from shared.wire import GRADIENT_NORM, Arrays, Update

# As in the authors' code: rounds before the first split, and length of the series compared.
_PATIENCE = 20
_WINDOW = 5
# Their ε1 / ε2.
_STILL = 0.5

Array32 = NDArray[np.float32]


class GCFL(ServerMethod):
    """Averages within clusters, and splits a cluster whose members pull apart.

    A cluster is split where its mean update is short, ‖Σ_i n_i/n Δθ_i‖ < ε1, while a member's is
    long, max ‖Δθ_i‖ > ε2 (equation 4): together they stand still, alone they would go on. The
    authors' ε1 = 0.05 and ε2 = 0.1 fit the size and learning rate of their model: under Adam an
    update is about lr · √P long. Here the scale is taken from the longest update, and of the
    thresholds their ratio stays: a cluster stands still below half of it.
    """

    def __init__(self) -> None:
        self._round = 0
        self._models: dict[int, Arrays] = {}  # by cluster
        self._cluster: dict[str, int] = {}  # by institution; who is not here is in cluster 0
        self._norms: dict[str, list[float]] = {}  # ‖g_i‖ of the last rounds

    def begin(self, initial: Arrays) -> None:
        """One cluster of all, at θ^(1)."""
        self._models = {0: dict(initial)}

    def message(self, institution: str) -> Arrays:
        """The model of its cluster."""
        return self._models[self._cluster.get(institution, 0)]

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Lines 5 to 14 of Algorithm 1: split where it is time, then average each cluster."""
        self._round += 1
        for name, update in updates.items():
            self._cluster.setdefault(name, 0)
            self._norms.setdefault(name, []).append(update.metrics.get(GRADIENT_NORM, 0.0))
            del self._norms[name][:-_WINDOW]
        changes = {
            name: np.concatenate([u.arrays[key].reshape(-1) for key in sorted(u.arrays)])
            for name, u in updates.items()
        }
        split = False
        for cluster in sorted(self._models):
            members = sorted(name for name in updates if self._cluster[name] == cluster)
            if members and self._stands_still(members, updates, changes):
                self._split(cluster, members)
                split = True
        if split:
            # Series of before and after a split are not comparable.
            self._norms = {}
        for cluster in self._models:
            self._average(cluster, updates)
        groups = [
            sorted(name for name, at in self._cluster.items() if at == cluster)
            for cluster in sorted(self._models)
        ]
        return RoundReport({"clusters": groups})

    def state_dict(self) -> Arrays:
        """Models of clusters, who is in which, the series of norms, the round."""
        saved: Arrays = {
            f"model/{cluster}/{name}": array
            for cluster, model in self._models.items()
            for name, array in model.items()
        }
        saved |= {f"cluster/{name}": np.array(at, np.int64) for name, at in self._cluster.items()}
        saved |= {f"norms/{name}": np.array(norms) for name, norms in self._norms.items()}
        return saved | {"round/": np.array(self._round, np.int64)}

    def load_state_dict(self, saved: Arrays) -> None:
        """The reverse of ``state_dict``."""
        self._models, self._cluster, self._norms = {}, {}, {}
        for key, array in saved.items():
            kind, name = key.split("/", 1)
            if kind == "model":
                cluster, name = name.split("/", 1)
                self._models.setdefault(int(cluster), {})[name] = np.array(array)
            elif kind == "cluster":
                self._cluster[name] = int(array)
            elif kind == "norms":
                self._norms[name] = [float(norm) for norm in array]
            else:
                self._round = int(array)

    def _stands_still(
        self, members: list[str], updates: Mapping[str, Update], changes: Mapping[str, Array32]
    ) -> bool:
        """Equation 4, once there is enough to compare."""
        if self._round <= _PATIENCE or len(members) <= 2:
            return False
        if any(len(self._norms.get(name, [])) < _WINDOW for name in members):
            return False
        weights = example_weights([updates[name] for name in members])
        stacked = np.stack([changes[name] for name in members]).astype(np.float64)
        longest = float(np.linalg.norm(stacked, axis=1).max())
        mean = float(np.linalg.norm(weights @ stacked))
        return longest > 0.0 and mean < _STILL * longest

    def _split(self, cluster: int, members: list[str]) -> None:
        """Bi-partition by the minimum cut of what DTW distances leave of similarity."""
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
            self._models[cluster] = averaged_step(self._models[cluster], answers)
