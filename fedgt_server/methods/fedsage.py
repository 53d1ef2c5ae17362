"""FedSage+ at the coordinator (Zhang et al. 2021, Algorithm 1)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedgt_server.methods.base import (
    SAGE_DEFAULTS,
    MethodInfo,
    RoundReport,
    join_groups,
    split_groups,
)
from fedgt_server.methods.fedavg import FedAvg
from shared.config import RunConfig
from shared.fedsage import OFFERED_ROWS, exchanged, generator_rounds
from shared.wire import (
    GENERATED_FEATURES,
    GENERATED_GRADIENTS,
    WEIGHTS,
    Arrays,
    Profile,
    Update,
)

Array32 = NDArray[np.float32]

DISCLOSURE = (
    "fedsage passes generated features and gradients between institutions: "
    "from a gradient its receiver can work out features of another institution's nodes"
)


class FedSage(FedAvg):
    """Passes on generated features and gradients, then averages classifiers as FedAvg.

    The paper sends what one institution generates to all others. Here each row goes to one other,
    and over rows and rounds to all of them in turn: the mean of their gradients is the same, and
    what travels does not grow with the number of institutions.
    """

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self._rounds = config.rounds
        self._completed = 0
        self._offered: dict[str, Array32] = {}  # generated in the last round
        self._returned: dict[str, Array32] = {}  # gradients of those of the round before

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        """Expect what a generator round exchanges, later Δθ of the classifier."""
        if self._trains_generators():
            names = exchanged(self._completed + 1, self._rounds)
            return {name: [OFFERED_ROWS, len(profile.features)] for name in names}
        return super().expected(profile)

    def message(self, institution: str) -> Arrays:
        """Return rows of others and gradients of its own rows; later the classifier."""
        if not self._trains_generators():
            return super().message(institution)
        message: Arrays = {}
        if institution in self._offered and len(self._offered) > 1:
            message[GENERATED_FEATURES] = distribute_rows(
                self._offered, institution, self._completed
            )
        if institution in self._returned:
            message[GENERATED_GRADIENTS] = self._returned[institution]
        return message

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Keep what is to be passed on; later average by examples."""
        if not self._trains_generators():
            self._completed += 1
            super().aggregate(updates)
            return RoundReport({"phase": "classifier"})
        gradients = _named(updates, GENERATED_GRADIENTS)
        self._returned = return_gradients(self._offered, gradients, self._completed)
        self._offered = _named(updates, GENERATED_FEATURES)
        self._completed += 1
        return RoundReport({"phase": "generator"}, [DISCLOSURE] if self._completed == 1 else [])

    def state_dict(self) -> Arrays:
        """Return the classifier, what is to be passed on, and the round."""
        return join_groups(
            {
                "model": super().state_dict(),
                "offered": self._offered,
                "returned": self._returned,
                "completed": {"": np.array(self._completed, np.int64)},
            }
        )

    def load_state_dict(self, saved: Arrays) -> None:
        """Restore what ``state_dict`` returned."""
        model, self._offered, self._returned, completed = split_groups(
            saved, "model", "offered", "returned", "completed"
        )
        super().load_state_dict(model)
        self._completed = int(completed[""])

    def _trains_generators(self) -> bool:
        """Return whether the next round trains generators."""
        return self._completed < generator_rounds(self._rounds)


def row_owners(institutions: int, rows: int, turn: int) -> NDArray[np.int64]:
    """Return whose row each institution gets, shape (institutions, rows): never its own.

    Row k of institution i comes from institution i + 1 + (k + turn) mod (M − 1), modulo M, so
    that every row goes to exactly one other institution.
    """
    further = 1 + (np.arange(rows) + turn) % (institutions - 1)
    return np.asarray((np.arange(institutions)[:, None] + further) % institutions)


def distribute_rows(offered: Mapping[str, Array32], institution: str, turn: int) -> Array32:
    """Return the rows of others that ``institution`` gets, shape (rows, p)."""
    names = sorted(offered)
    count = len(offered[institution])
    mine = row_owners(len(names), count, turn)[names.index(institution)]
    return np.stack([offered[names[owner]][row] for row, owner in enumerate(mine)])


def return_gradients(
    offered: Mapping[str, Array32], gradients: Mapping[str, Array32], turn: int
) -> dict[str, Array32]:
    """Return gradients by the institution whose rows they belong to, each of shape (rows, p).

    Zero where the institution that had the row did not answer.
    """
    names = sorted(offered)
    if len(names) < 2 or not gradients:
        return {}
    back = {name: np.zeros_like(offered[name]) for name in names}
    count = len(offered[names[0]])
    for name, owners in zip(names, row_owners(len(names), count, turn), strict=True):
        if name in gradients:
            for row, origin in enumerate(owners):
                back[names[origin]][row] = gradients[name][row]
    return back


def _named(updates: Mapping[str, Update], array: str) -> dict[str, Array32]:
    return {name: u.arrays[array] for name, u in updates.items() if array in u.arrays}


INFO = MethodInfo(
    "FedSage+",
    "GraphSAGE on graphs with generated neighbours, averaged",
    FedSage,
    defaults=SAGE_DEFAULTS,
    uploads=(WEIGHTS, GENERATED_FEATURES, GENERATED_GRADIENTS),
)
