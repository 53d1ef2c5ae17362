"""Personalised averaging, common to FedGT and FED-PUB: θ̂_i = Σ_j α_ij θ_j."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from fedgt_server.aggregation import personalised_models, softmax_weights
from fedgt_server.methods.base import RoundReport, ServerMethod, join_groups, split_groups
from fedgt_server.transport import Floats, spread, unit_rows
from shared.config import RunConfig
from shared.wire import Arrays

# Below this spread of the similarities the personalised averages are close to the plain mean.
_MIN_SPREAD = 0.01

Array32 = NDArray[np.float32]


class PersonalisedAveraging(ServerMethod):
    """Keeps θ_i of every institution and θ̂_i, what each is sent.

    A subclass records what institutions are compared by, and computes their similarity.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._spread = -1.0  # of the similarities in the last round
        self._shapes: dict[str, tuple[int, ...]] = {}  # of every parameter, by name
        self._initial = np.zeros(0, np.float32)  # θ̂^(1), shape: (P,)
        self._models: dict[str, Array32] = {}  # θ_i by institution, shape: (P,)
        self._sent: dict[str, Array32] = {}  # θ̂_i by institution, shape: (P,)
        self._traits: dict[str, Array32] = {}  # a vector that institutions are compared by

    def begin(self, initial: Arrays) -> None:
        """Set θ̂^(1), the same for all."""
        # By name: a checkpoint does not keep any other order.
        self._shapes = {name: initial[name].shape for name in sorted(initial)}
        self._initial = self._flat(initial)

    def message(self, institution: str) -> Arrays:
        """Return θ̂_i; for an institution that never answered, the plain mean of all models."""
        if institution not in self._sent:
            models = [self._models[name] for name in sorted(self._models)] or [self._initial]
            self._sent[institution] = np.mean(models, axis=0, dtype=np.float32)
        return self._named(self._sent[institution])

    def state_dict(self) -> Arrays:
        """Return all models, traits and shapes, with names ``group/institution``."""
        return join_groups(
            {
                "initial": {"": self._initial},
                "model": self._models,
                "sent": self._sent,
                "trait": self._traits,
                "shape": {name: np.array(s, np.int64) for name, s in self._shapes.items()},
            }
        )

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        initial, self._models, self._sent, self._traits, shapes = split_groups(
            saved, "initial", "model", "sent", "trait", "shape"
        )
        self._initial = initial[""]
        self._shapes = {name: tuple(int(n) for n in shape) for name, shape in shapes.items()}

    def _add_change(self, institution: str, arrays: Arrays) -> Array32:
        """Set θ_i = θ̂_i + Δθ_i, with the θ̂_i that this institution started from; return Δθ_i."""
        change = self._flat(arrays)
        self._models[institution] = self._sent[institution] + change
        return change

    def _institutions(self) -> list[str]:
        """Return all institutions that have ever answered, in the order of every matrix here."""
        return sorted(self._models)

    def _average(self, similarity: Floats, answered: Collection[str]) -> Floats:
        """Compute θ̂_i of every institution, equation 8; return the weights α, shape (M, M).

        The models of this round are averaged. An institution that missed it gets the average of
        these and of its own last model.
        """
        names = self._institutions()
        models = np.stack([self._models[name] for name in names])  # shape: (M, P)
        absent = np.array([name not in answered for name in names])
        left_out = absent[None, :] & ~np.eye(len(names), dtype=bool)
        if self._config.aggregation == "mean":
            weights = softmax_weights(np.where(left_out, -np.inf, 0.0), 1.0)
        else:
            weights = softmax_weights(np.where(left_out, -np.inf, similarity), self._config.tau)
        self._sent = dict(zip(names, personalised_models(weights, models), strict=True))
        return weights

    def _trait_similarity(self) -> Floats:
        """Return the cosine similarity of all institutions' traits, shape (M, M)."""
        traits = np.stack([self._traits[name] for name in self._institutions()])
        directions = unit_rows(traits.astype(np.float64))
        similarity = directions @ directions.T
        np.fill_diagonal(similarity, 1.0)  # also where a trait is zero
        return similarity

    def _report(self, similarity: Floats, weights: Floats) -> RoundReport:
        names = self._institutions()
        mean, deviation = spread(similarity)
        before, self._spread = self._spread, deviation
        warnings = []
        if (
            len(names) > 2
            and self._config.aggregation == "personalised"
            and deviation < _MIN_SPREAD
            and deviation <= before  # all start alike; in the first rounds the spread grows
        ):
            warnings.append(
                f"all institutions look alike (similarity {mean:.3f} ± {deviation:.3f}): "
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
        """Return all parameters as one vector, shape (P,)."""
        return np.concatenate([arrays[name].reshape(-1) for name in self._shapes])

    def _named(self, vector: Array32) -> Arrays:
        """Return the parameters in a vector, shape (P,), by name."""
        sizes = [int(np.prod(shape)) for shape in self._shapes.values()]
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return {
            name: part.reshape(shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }
