"""FedGT at the coordinator, Algorithm 3."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedgt_server.aggregation import (
    personalised_global_nodes,
    personalised_models,
    softmax_weights,
)
from fedgt_server.methods.base import RoundReport, ServerMethod
from fedgt_server.transport import Floats, centred, denoised, spread, transport, unit_rows
from shared.config import RunConfig
from shared.wire import GLOBAL_NODES, LABEL_DISTRIBUTION, Arrays, Profile, Update

# Below this spread of the similarities the personalised averages are all but the plain mean.
_DEAD_SPREAD = 0.01

Array32 = NDArray[np.float32]


class FedGT(ServerMethod):
    """Keeps θ_i and μ_i of every institution, and what each is sent: θ̂_i and μ̂_i."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._spread = -1.0  # of the similarities in the last round
        self._shapes: dict[str, tuple[int, ...]] = {}
        # By kind, then by institution; "start" holds θ̂^(1) under the empty name.
        self._known: dict[str, dict[str, Array32]] = {
            kind: {} for kind in ("start", "model", "nodes", "trait", "sent", "sent_nodes")
        }

    def begin(self, initial: Arrays) -> None:
        """θ̂^(1), the same for all."""
        # By name: a checkpoint does not keep another order.
        self._shapes = {name: initial[name].shape for name in sorted(initial)}
        self._known["start"][""] = self._flat(initial)

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        """Δθ, and what clients are compared by."""
        config, shapes = self._config, super().expected(profile)
        if config.global_nodes:
            sets = 1 if config.global_node_sets == "input" else config.layers + 1
            shapes[GLOBAL_NODES] = [sets, config.global_nodes, config.hidden]
        if config.similarity == "label":
            shapes[LABEL_DISTRIBUTION] = [len(profile.classes)]
        return shapes

    def message(self, institution: str) -> Arrays:
        """θ̂_i and μ̂_i; for one that never answered, the plain mean of what is known."""
        sent = self._known["sent"]
        if institution not in sent:
            known = self._known["model"] or self._known["start"]
            models = [known[name] for name in sorted(known)]
            sent[institution] = np.mean(models, axis=0, dtype=np.float32)
        arrays = self._named(sent[institution])
        if institution in self._known["sent_nodes"]:
            arrays[GLOBAL_NODES] = self._known["sent_nodes"][institution]
        return arrays

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Equations 7 and 8, for every institution that has ever answered.

        Those of this round are averaged. An institution that missed it gets the average of them
        and of its own last state, weighted by what was last known of it.
        """
        for name, update in updates.items():
            self._remember(name, update.arrays)
        names = sorted(self._known["model"])
        models = np.stack([self._known["model"][name] for name in names])  # shape: (M, P)
        similarity, plans = self._compare(names)
        absent = np.array([name not in updates for name in names])
        left_out = absent[None, :] & ~np.eye(len(names), dtype=bool)
        if self._config.aggregation == "mean":
            weights = softmax_weights(np.where(left_out, -np.inf, 0.0), 1.0)
        else:
            weights = softmax_weights(np.where(left_out, -np.inf, similarity), self._config.tau)
        self._known["sent"] = dict(zip(names, personalised_models(weights, models), strict=True))
        if plans:
            self._average_nodes(names, weights, plans)
        return self._report(names, similarity, weights)

    def state_dict(self) -> Arrays:
        """All that is known, as flat names."""
        return {
            f"{kind}/{name}": array
            for kind, arrays in self._known.items()
            for name, array in arrays.items()
        } | {f"shape/{name}": np.array(shape, np.int64) for name, shape in self._shapes.items()}

    def load_state_dict(self, saved: Arrays) -> None:
        """The reverse of ``state_dict``."""
        self._shapes = {}
        self._known = {kind: {} for kind in self._known}
        for key, array in sorted(saved.items()):
            kind, name = key.split("/", 1)
            if kind == "shape":
                self._shapes[name] = tuple(int(size) for size in array)
            else:
                self._known[kind][name] = np.array(array)

    def _remember(self, name: str, arrays: Arrays) -> None:
        change = self._flat(arrays)
        # θ_i = θ̂_i + Δθ_i, with the θ̂_i that this institution started from.
        self._known["model"][name] = self._known["sent"][name] + change
        if GLOBAL_NODES in arrays:
            self._known["nodes"][name] = arrays[GLOBAL_NODES]
        if self._config.similarity == "update":
            self._known["trait"][name] = change
        elif self._config.similarity == "label":
            self._known["trait"][name] = arrays[LABEL_DISTRIBUTION]

    def _compare(self, names: list[str]) -> tuple[Floats, list[Floats]]:
        """Similarity, shape (M, M), and for each set of global nodes the plans to align it."""
        config, plans = self._config, []
        by_trait = config.similarity in ("update", "label")
        similarity = np.eye(len(names))
        if all(name in self._known["nodes"] for name in names):
            nodes = np.stack([self._known["nodes"][name] for name in names]).astype(np.float64)
            for index in range(nodes.shape[1]):
                points = centred(nodes[:, index]) if config.centre_fingerprints else nodes[:, index]
                # The last set is the institutions' fingerprint: its similarity is the one kept.
                similarity, plan = transport(points, "hungarian" if by_trait else config.similarity)
                plans.append(plan)
                if config.ldp != "off" and config.denoise_similarity:
                    similarity = denoised(similarity, points, 2.0 * config.ldp_noise**2)
        if by_trait:
            traits = unit_rows(np.stack([self._known["trait"][n] for n in names]).astype(float))
            similarity = traits @ traits.T
            np.fill_diagonal(similarity, 1.0)  # also of a client whose update is zero
        return similarity, plans

    def _average_nodes(self, names: list[str], weights: Floats, plans: list[Floats]) -> None:
        """μ̂ of the sets that are attended to; a fingerprint of its own is not averaged."""
        attended = plans if self._config.global_node_sets == "input" else plans[:-1]
        nodes = np.stack([self._known["nodes"][name] for name in names])
        averaged = np.stack(
            [
                personalised_global_nodes(weights, nodes[:, index], plan)
                for index, plan in enumerate(attended)
            ],
            axis=1,
        )  # shape: (M, attended sets, n_g, d)
        self._known["sent_nodes"] = dict(zip(names, averaged, strict=True))

    def _report(self, names: list[str], similarity: Floats, weights: Floats) -> RoundReport:
        mean, deviation = spread(similarity)
        before, self._spread = self._spread, deviation
        warnings = []
        if (
            len(names) > 2
            and self._config.aggregation == "personalised"
            and deviation < _DEAD_SPREAD
            and deviation <= before  # all start alike; in the first rounds the spread grows
        ):
            warnings.append(
                f"institutions look all alike (similarity {mean:.3f} ± {deviation:.3f}): "
                "the personalised averages are close to the plain mean"
            )
        facts = {
            "order": names,
            "similarity": np.round(similarity, 4).tolist(),
            "similarity_mean": mean,
            "similarity_spread": deviation,
            "self_weight": float(np.diag(weights).mean()),
        }
        return RoundReport(facts, warnings)

    def _flat(self, arrays: Arrays) -> Array32:
        """All parameters as one vector, shape (P,)."""
        return np.concatenate([arrays[name].reshape(-1) for name in self._shapes])

    def _named(self, vector: Array32) -> Arrays:
        """The reverse of ``_flat``."""
        sizes = [int(np.prod(shape)) for shape in self._shapes.values()]
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return {
            name: part.reshape(shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }
