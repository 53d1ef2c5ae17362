"""FedSage+ at the coordinator (Zhang et al. 2021, Algorithm 1)."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from fedgt_server.methods.base import RoundReport
from fedgt_server.methods.fedavg import FedAvg
from shared.config import RunConfig
from shared.fedsage import OFFERED_ROWS, exchanged, generator_rounds
from shared.wire import GENERATED_FEATURES, GENERATED_GRADIENTS, Arrays, Profile, Update

Array32 = NDArray[np.float32]

DISCLOSURE = (
    "fedsage passes generated features and gradients between institutions: "
    "from a gradient its receiver can work out features of another institution's nodes"
)


class FedSage(FedAvg):
    """First passes generated features and gradients on, then averages classifiers as FedAvg.

    The paper sends what one institution generates to all others. Here each row goes to one other,
    and over rows and rounds to all of them in turn: the mean of their gradients is the same, and
    what travels does not grow with the number of institutions.
    """

    def __init__(self, config: RunConfig) -> None:
        super().__init__()
        self._rounds = config.rounds
        self._played = 0
        self._offered: dict[str, Array32] = {}  # generated in the last round
        self._returned: dict[str, Array32] = {}  # gradients of those of the round before

    def expected(self, profile: Profile) -> dict[str, list[int]]:
        """What is exchanged in a round of the generators, later Δθ of the classifier."""
        if self._generating():
            names = exchanged(self._played + 1, self._rounds)
            return {name: [OFFERED_ROWS, len(profile.features)] for name in names}
        return super().expected(profile)

    def message(self, institution: str) -> Arrays:
        """Rows of others and the gradients of its own; later the classifier."""
        if not self._generating():
            return super().message(institution)
        message: Arrays = {}
        if institution in self._offered and len(self._offered) > 1:
            message[GENERATED_FEATURES] = handed_out(self._offered, institution, self._played)
        if institution in self._returned:
            message[GENERATED_GRADIENTS] = self._returned[institution]
        return message

    def aggregate(self, updates: Mapping[str, Update]) -> RoundReport:
        """Keep what is to be passed on; later average by examples."""
        if not self._generating():
            self._played += 1
            super().aggregate(updates)
            return RoundReport({"phase": "classifier"})
        gradients = _named(updates, GENERATED_GRADIENTS)
        self._returned = handed_back(self._offered, gradients, self._played)
        self._offered = _named(updates, GENERATED_FEATURES)
        self._played += 1
        return RoundReport({"phase": "generator"}, [DISCLOSURE] if self._played == 1 else [])

    def state_dict(self) -> Arrays:
        """The classifier, what is under way, the round."""
        saved = {f"model/{name}": array for name, array in super().state_dict().items()}
        saved |= {f"offered/{name}": array for name, array in self._offered.items()}
        saved |= {f"returned/{name}": array for name, array in self._returned.items()}
        return saved | {"played/": np.array(self._played, np.int64)}

    def load_state_dict(self, saved: Arrays) -> None:
        """The reverse of ``state_dict``."""
        kinds: dict[str, Arrays] = {kind: {} for kind in ("model", "offered", "returned", "played")}
        for key, array in saved.items():
            kind, name = key.split("/", 1)
            kinds[kind][name] = np.array(array)
        super().load_state_dict(kinds["model"])
        self._offered, self._returned = kinds["offered"], kinds["returned"]
        self._played = int(kinds["played"][""])

    def _generating(self) -> bool:
        """Whether the next round is one of the generators'."""
        return self._played < generator_rounds(self._rounds)


def origins(institutions: int, rows: int, turn: int) -> NDArray[np.int64]:
    """Whose row each gets, shape (institutions, rows): nobody its own, nobody's twice.

    Row k of institution i comes from the one 1 + (k + turn) mod (M − 1) places further on.
    """
    further = 1 + (np.arange(rows) + turn) % (institutions - 1)
    return np.asarray((np.arange(institutions)[:, None] + further) % institutions)


def handed_out(offered: Mapping[str, Array32], institution: str, turn: int) -> Array32:
    """The rows of others that ``institution`` gets, shape (rows, p)."""
    names = sorted(offered)
    stacked = np.stack([offered[name] for name in names])  # shape: (M, rows, p)
    rows = np.arange(stacked.shape[1])
    mine = origins(len(names), len(rows), turn)[names.index(institution)]
    return np.asarray(stacked[mine, rows])


def handed_back(
    offered: Mapping[str, Array32], gradients: Mapping[str, Array32], turn: int
) -> dict[str, Array32]:
    """Gradients in the order of whose rows they are of, each of shape (rows, p).

    Zero where the institution that had the row did not answer.
    """
    names = sorted(offered)
    if len(names) < 2 or not gradients:
        return {}
    back = {name: np.zeros_like(offered[name]) for name in names}
    count = len(offered[names[0]])
    for name, whose in zip(names, origins(len(names), count, turn), strict=True):
        if name in gradients:
            for row, origin in enumerate(whose):
                back[names[origin]][row] = gradients[name][row]
    return back


def _named(updates: Mapping[str, Update], array: str) -> dict[str, Array32]:
    return {name: u.arrays[array] for name, u in updates.items() if array in u.arrays}
