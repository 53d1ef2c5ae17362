"""Personalised averaging, common to FedGT and FED-PUB: θ̂_i = Σ_j α_ij θ_j."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgt_server.aggregation import Array32, personalised_models, softmax_weights
from fedgt_server.methods.base import (
    RoundReport,
    ServerMethod,
    group_items,
    join_groups,
    split_groups,
)
from fedgt_server.model_table import ModelTable
from fedgt_server.robust import UpdateAgreement, Wary, row_blocks, trusted_weights
from fedgt_server.transport import Floats, spread
from shared.config import RunConfig
from shared.wire import KEPT_OWN, Arrays, Update

# Below this spread of the similarities the personalised averages are close to the plain mean.
_MIN_SPREAD = 0.01
# Bytes of a part of a large matrix that is computed at once.
_BLOCK = 2**26
# With more institutions the journal does not keep all similarities and weights (600 kB a round),
# but only the weights of those others that weigh most with each.
_FEW = 200
_STRONGEST = 5
# With more institutions their updates are compared by every eighth coordinate.
_SOME = 8


class PersonalisedAveraging(ServerMethod):
    """Keeps θ_i of every institution and θ̂_i, what each is sent.

    A subclass records what institutions are compared by, and computes their similarity.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._spread = -1.0  # of the similarities in the last round
        self._shapes: dict[str, tuple[int, ...]] = {}  # of every parameter, by name
        self._initial = np.zeros(0, np.float32)  # θ̂^(1), shape: (P,)
        self._common: Array32 | None = None  # for institutions that never answered, shape: (P,)
        self._new: set[str] = set()  # those whose first update came in this round
        self._wary = Wary()
        self._rounds = 0  # that were averaged so far
        self._models = self._table(0)  # θ_i, shape: (M, P)
        self._sent = self._table(0)  # θ̂_i, shape: (M, P)
        # Where all θ̂_i are averages of the θ_i as they are now: the weights α, shape (M, M).
        self._mixing: Array32 | None = None
        self._traits = self._table(0)  # what institutions are compared by: a vector for each

    def begin(self, initial: Arrays) -> None:
        """Set θ̂^(1), the same for all."""
        # By name: a checkpoint does not keep any other order.
        self._shapes = {name: initial[name].shape for name in sorted(initial)}
        self._start_from(self._flat(initial))

    def message(self, institution: str) -> Arrays:
        """Return θ̂_i; for an institution that never answered, the mean of all models.

        With ``robust`` it is their median.
        """
        return self._named(self._sent_to(institution))

    def state_dict(self) -> Arrays:
        """Return all models, traits and shapes, with names ``group/institution``.

        Averages of the models are not among them, if the weights are: these take less room.
        """
        averages = self._sent.views() if self._mixing is None else {}
        return join_groups(
            {
                "initial": {"": self._initial},
                "model": self._models.views(),
                "sent": averages,
                "mixing": {} if self._mixing is None else {"": self._mixing},
                "trait": self._traits.views(),
                "wary": self._wary.state_dict(),
                "rounds": {"": np.array(self._rounds, np.int64)},
                "shape": {name: np.array(s, np.int64) for name, s in self._shapes.items()},
            }
        )

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        initial, shapes, wary, rounds, mixing = split_groups(
            saved, "initial", "shape", "wary", "rounds", "mixing"
        )
        self._wary = Wary(wary)
        self._rounds = int(rounds.get("", 0))
        self._shapes = {name: tuple(int(n) for n in shape) for name, shape in shapes.items()}
        self._start_from(initial[""])
        for name, row in group_items(saved, "model"):
            self._models[name] = row
        for name, row in group_items(saved, "sent"):
            self._sent[name] = row
        for name, row in group_items(saved, "trait"):
            self._set_trait(name, row)
        if mixing:
            self._average(np.array(mixing[""]))

    def _start_from(self, initial: Array32) -> None:
        """Set θ̂^(1), and forget all models."""
        self._initial, self._common, self._mixing = initial, None, None
        self._models, self._sent = self._table(len(initial)), self._table(len(initial))
        self._traits = self._table(0)

    def _table(self, width: int) -> ModelTable:
        tables = 3 if self._config.similarity == "update" else 2  # as wide as a model
        memory = self._config.models_memory_mb * 2**20 // tables
        return ModelTable(width, memory, Path(self._config.results_dir))

    def _sent_to(self, institution: str) -> Array32:
        """Return the θ̂_i that an institution starts from, shape (P,)."""
        found: Array32 | None = self._sent.get(institution)
        return self._common_model() if found is None else found

    def _common_model(self) -> Array32:
        """Return the mean or median of the models after the last round; θ̂^(1) before the first."""
        if not self._sent:
            return self._initial
        if self._common is None:
            centre = np.median if self._config.robust else np.mean
            self._common = np.concatenate(
                [centre(models, axis=0).astype(np.float32) for _, models in self._columns()]
            )
        return self._common

    def _receive_all(self, updates: Mapping[str, Update]) -> None:
        """Take in those updates that still hold arrays."""
        for name, update in updates.items():
            if update.arrays:
                self.receive(name, update)

    def _add_change(self, institution: str, update: Update) -> Array32:
        """Set θ_i = θ̂_i + Δθ_i, with the θ̂_i that this institution was sent; return Δθ_i.

        θ̂_i here is not rounded as the message was: changes below the rounding are not lost.
        An institution that did not take over θ̂_i has gone on from its last θ_i.
        """
        arrays, kept_own = update.arrays, update.metrics.get(KEPT_OWN) == 1.0
        start = self._sent_to(institution)
        if institution not in self._models:
            self._new.add(institution)
        elif kept_own:
            start = self._models[institution]
            self._sent[institution] = start  # what its change counts from
        if kept_own:
            self._wary.complain(institution)
        change = self._flat(arrays)
        self._set_model(institution, start + change)
        return change

    def _set_model(self, institution: str, model: Array32) -> None:
        """Set θ_i, from which no θ̂ has been made yet."""
        self._models[institution], self._mixing = model, None

    def shorten(self, institution: str, update: Update, factor: float) -> Update:
        """Take a part of the way from θ̂_i to θ_i."""
        start = self._sent_to(institution)
        change = self._models[institution] - start
        self._set_model(institution, start + np.float32(factor) * change)
        return update

    def refuse(self, institution: str) -> None:
        """Set θ_i = θ̂_i, as if it had not trained; forget an institution that is new."""
        if institution in self._new:
            self._mixing = None
            self._models.remove(institution)
            if institution in self._traits:
                self._traits.remove(institution)
        else:
            self._set_model(institution, self._sent_to(institution))

    def _set_trait(self, institution: str, trait: Array32) -> None:
        if not self._traits:
            self._traits = self._table(len(trait))
        self._traits[institution] = trait

    def _institutions(self) -> list[str]:
        """Return all institutions that have ever answered, in the order of every matrix here."""
        return sorted(self._models)

    def _weights(self, similarity: Floats, answered: Collection[str]) -> Array32:
        """Return the weights α, equation 8, shape (M, M).

        The models of this round are averaged. An institution that missed it gets the average of
        these and of its own last model.
        """
        names = self._institutions()
        absent = np.array([name not in answered for name in names])
        weights = np.empty(similarity.shape, np.float32)
        for start, stop in _blocks(len(names), len(names)):
            scores = similarity[start:stop].copy()
            tau = self._config.tau
            if self._config.aggregation == "mean":
                scores[:], tau = 0.0, 1.0
            own = np.arange(start, stop)
            kept = scores[own - start, own]
            scores[:, absent] = -np.inf
            scores[own - start, own] = kept
            weights[start:stop] = softmax_weights(scores, tau)
        if self._config.robust:
            weights = self._trusted(weights, absent)
        return weights

    def _trusted(self, weights: Array32, absent: NDArray[np.bool_]) -> Array32:
        """Leave out of wary institutions' averages whose updates do not agree with theirs."""
        self._rounds += 1
        always = self._config.agreeing_only or self._is_cautious()
        wary = np.array([always or name in self._wary for name in self._institutions()])
        wary &= ~absent  # who is absent has no update to agree with
        agreement = self._agreement() if wary.any() else None
        for rows in row_blocks(len(weights)):
            agreeing = np.ones(weights[rows].shape)
            if agreement is not None and wary[rows].any():
                agreeing[wary[rows]] = agreement.rows(rows)[wary[rows]]
            weights[rows] = trusted_weights(weights[rows], agreeing, rows.start)
        self._wary.next_round()
        return weights

    def _agreement(self) -> UpdateAgreement:
        """Compare all updates of this round."""
        names = self._institutions()
        products = np.zeros((len(names), len(names)))
        for start, models in self._columns():
            models -= self._starts(names, start, models.shape[1])
            step = 1 if len(names) <= _FEW else _SOME
            some = np.ascontiguousarray(models[:, ::step])
            products += some @ some.T
        return UpdateAgreement(products, self._sums_so_far())

    def _is_cautious(self) -> bool:
        """Tell whether all are averaged only with those that agree with them, in this round."""
        return False

    def _sums_so_far(self) -> Array32 | None:
        """Return what all updates so far add up to, as sketches, shape (M, d); None: not known."""
        return None

    def _starts(self, names: list[str], start: int, count: int) -> Array32:
        """Return columns of θ̂_i of every institution, shape (M, count)."""
        stop = start + count
        common = self._common_model()[start:stop] if self._new else np.zeros(0, np.float32)
        known = [name for name in names if name in self._sent]
        found = iter(self._sent.columns(known, start, stop))
        return np.stack([next(found) if name in self._sent else common for name in names])

    def _average(self, weights: Array32) -> None:
        """Compute θ̂_i of every institution, equation 8, from the weights α, shape (M, M)."""
        names = self._institutions()
        for start, models in self._columns():
            self._sent.set_columns(names, start, personalised_models(weights, models))
        self._common, self._new, self._mixing = None, set(), weights

    def _columns(self) -> Iterator[tuple[int, Array32]]:
        """Yield blocks of columns of all models, shape (M, columns), and the first's number."""
        names = self._institutions()
        for start, stop in _blocks(self._models.width, len(names)):
            yield start, self._models.columns(names, start, stop)

    def _trait_similarity(self) -> Floats:
        """Return the cosine similarity of all institutions' traits, shape (M, M)."""
        names = self._institutions()
        products = np.zeros((len(names), len(names)))
        for start, stop in _blocks(self._traits.width, len(names)):
            traits = self._traits.columns(names, start, stop).astype(np.float64)
            products += traits @ traits.T
        lengths = np.maximum(np.sqrt(np.diag(products)), 1e-12)
        products /= lengths[:, None]
        products /= lengths
        np.fill_diagonal(products, 1.0)  # also where a trait is zero
        return products

    def _report(self, similarity: Floats, weights: Array32) -> RoundReport:
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
        facts: dict[str, Any] = {
            "similarity_mean": mean,
            "similarity_spread": deviation,
            "self_weight": float(np.diag(weights).mean(dtype=np.float64)),
        }
        if len(names) <= _FEW:
            facts |= {
                "order": names,
                "similarity": np.round(similarity, 4).tolist(),
                "weights": [[round(float(w), 4) for w in row] for row in weights],
            }
        else:
            facts["strongest"] = strongest_weights(names, weights, _STRONGEST)
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


def strongest_weights(
    names: list[str], weights: Array32, count: int
) -> dict[str, dict[str, float]]:
    """Return the ``count`` others with the largest weights for each institution, largest first."""
    found = {}
    for index, name in enumerate(names):
        row = weights[index].astype(np.float64)
        row[index] = -1.0
        order = np.argsort(-row, kind="stable")[: min(count, len(names) - 1)]
        found[name] = {names[other]: round(float(row[other]), 6) for other in order}
    return found


def _blocks(length: int, others: int) -> list[tuple[int, int]]:
    """Return parts of ``length`` lines of a float32 matrix with ``others`` values in each."""
    size = max(1, _BLOCK // (4 * max(others, 1)))
    return [(start, min(start + size, length)) for start in range(0, length, size)]
