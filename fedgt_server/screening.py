"""Which of a round's updates the models of others may use, judged when all of them are here."""

import math
from collections.abc import Collection, Mapping
from typing import NamedTuple

from fedgt_server.offences import Conduct, Conducts
from fedgt_server.robust import (
    NODES_REFUSED,
    REFUSED,
    allowed_length,
    length,
    medians_of_others,
)
from shared.wire import GLOBAL_NODES, Update


class _Lengths(NamedTuple):
    change: float  # of Δθ
    nodes: float  # of the global nodes; 0: there are none


class Verdict(NamedTuple):
    """What becomes of a round's updates."""

    factors: dict[str, float]  # of updates that are shortened
    refused: dict[str, str]  # by institution: why
    notices: list[str]  # for the journal: who comes into quarantine, who is let back


class Screening:
    """Compares the updates of a round with each other and with those of earlier rounds.

    Lengths are taken as updates come: the method need not keep the updates themselves.
    """

    def __init__(self, known: Mapping[str, Conduct] | None = None) -> None:
        self._conducts = Conducts(known)
        self._lengths: dict[str, _Lengths] = {}

    @property
    def conducts(self) -> dict[str, Conduct]:
        """What is remembered of institutions, for a checkpoint."""
        return self._conducts.known

    def measure(self, institution: str, update: Update, parameters: Collection[str]) -> None:
        """Note the lengths of an update."""
        self._lengths[institution] = _Lengths(
            length(update.arrays, parameters), length(update.arrays, (GLOBAL_NODES,))
        )

    def judge(self, round_number: int, institutions: Collection[str]) -> Verdict:
        """Judge the updates of these institutions, and forget the round's lengths."""
        lengths = {name: self._lengths[name] for name in sorted(institutions)}
        self._lengths = {}
        changes = medians_of_others({name: found.change for name, found in lengths.items()})
        nodes = medians_of_others({name: found.nodes for name, found in lengths.items()})
        if len(lengths) == 2:  # nobody can tell which of two is wrong
            changes = nodes = dict.fromkeys(lengths, math.inf)
        verdict = Verdict({}, {}, self._returning(round_number))
        for name, found in lengths.items():
            if reason := _reason_to_refuse(found, changes[name], nodes[name]):
                verdict.refused[name] = reason
                if notice := self._conducts.refused(name, round_number):
                    verdict.notices.append(notice)
            elif self._conducts.in_quarantine(name, round_number):
                until = self._conducts.of(name).until
                verdict.refused[name] = f"it is in quarantine up to round {until}"
            else:
                allowed = allowed_length(changes[name], self._conducts.of(name).lengths)
                used = found.change if found.change <= allowed else min(allowed, changes[name])
                if used < found.change:
                    verdict.factors[name] = used / found.change
                self._conducts.averaged(name, used)
        return verdict

    def _returning(self, round_number: int) -> list[str]:
        return [
            f"{name} is let back in after its quarantine"
            for name in self._conducts.returning(round_number)
        ]


def _reason_to_refuse(found: _Lengths, change: float, nodes: float) -> str | None:
    """Describe why an update is refused, beside the medians of the others."""
    if found.change > REFUSED * change > 0:
        return f"its change is {found.change / change:.3g} times as long as those of others"
    if found.nodes > NODES_REFUSED * nodes > 0:
        return f"its global nodes are {found.nodes / nodes:.3g} times as long as those of others"
    return None
