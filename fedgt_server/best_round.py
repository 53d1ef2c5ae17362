"""The best round so far, over the same institutions: who leaves must not make it look better.

An institution counts when it took part in at least half of the rounds. One that misses a round has
the model of its last one still, and counts with what it measured then.
"""

from collections.abc import Collection, Mapping, Sequence

from fedgt_server.checkpoint import BestRound, Standing
from fedgt_server.events import (
    InstitutionRound,
    RoundEvent,
    bounded_value,
    mean_value,
    trimmed_value,
)

# Gains up to this, as sums of decimal fractions have, are none.
_EQUAL = 1e-9


class BestRoundChoice:
    """Chooses after every round between it and the best before.

    Parameters
    ----------
    metric : what institutions measure on validation nodes
    smaller_is_better : of that metric
    robust : the largest third of the gains count for no more than the next largest, and of equal
        rounds the last is chosen: accuracies that were rounded are often equal while models learn
    """

    def __init__(self, metric: str, *, smaller_is_better: bool, robust: bool) -> None:
        self.best: BestRound | None = None
        self.standings: dict[str, Standing] = {}  # by institution
        self._metric = metric
        self._sign = -1.0 if smaller_is_better else 1.0
        self._average = trimmed_value if robust else mean_value
        self._average_gain = bounded_value if robust else mean_value
        self._takes_equals = robust

    def add(self, number: int, institutions: Mapping[str, InstitutionRound]) -> BestRound:
        """Return the best round so far, ``number`` included, which these took part in."""
        for name, part in institutions.items():
            before = self.standings.get(name)
            rounds = before.rounds + 1 if before else 1
            self.standings[name] = Standing(rounds, number, part.metrics.get(self._metric))
        regular = regulars({name: one.rounds for name, one in self.standings.items()}, number)
        selection = self._mean({n: one.value for n, one in self.standings.items()}, regular)
        if self._is_better(selection, regular):
            self.best = BestRound(number, selection, tuple(institutions), dict(self.standings))
        assert self.best is not None
        return self.best

    def round_of(self, institution: str) -> int:
        """Return the institution's last round up to the best one, 0 where it has none."""
        best = self.best
        if best is None:
            return 0
        if own := best.standings.get(institution):
            return own.round_number
        return best.number if institution in best.institutions else 0

    def _is_better(self, selection: float | None, regular: Collection[str]) -> bool:
        """Tell whether the round that was just played is to be the best.

        A round without validation is the best only while there has been no other, and one before
        an institution's first round is none that it could keep a model of.
        """
        best = self.best
        if best is None:
            return True
        if not best.standings:  # of a checkpoint of FedGT 0.1.0
            before = best.selection
            return before is None or (
                selection is not None and self._sign * selection > self._sign * before
            )
        if not set(regular) <= best.standings.keys():
            return selection is not None
        before = self._mean({n: one.value for n, one in best.standings.items()}, regular)
        if before is None or selection is None:
            return before is None
        gains = self._gains({n: one.value for n, one in best.standings.items()}, regular)
        gain = self._average_gain(gains)
        if gain is not None and self._takes_equals and abs(gain) <= _EQUAL:
            # By the plain sum, or a loss that does not count would be taken again and again.
            return sum(gains) > -_EQUAL
        return gain is not None and gain > _EQUAL

    def _gains(self, before: Mapping[str, float | None], names: Collection[str]) -> list[float]:
        """Return by how much each institution is better now than then.

        Each is compared with itself: institutions differ much more than rounds.
        """
        found = []
        for name in names:
            now, then = self.standings[name].value, before[name]
            if now is not None and then is not None:
                found.append(self._sign * (now - then))
        return found

    def _mean(self, values: Mapping[str, float | None], names: Collection[str]) -> float | None:
        return self._average([v for name in names if (v := values[name]) is not None])


def regulars(parts: Mapping[str, int], rounds: int) -> list[str]:
    """Return who took part in at least half of the rounds, or all where nobody did."""
    return sorted(name for name, count in parts.items() if 2 * count >= rounds) or sorted(parts)


def at_best_round(
    rounds: Sequence[RoundEvent],
) -> tuple[dict[str, InstitutionRound], dict[str, str]]:
    """Return what those who count measured at the best round, and why others do not count.

    Of an institution that missed the best round, it is what it measured in its last one before.
    """
    best = rounds[-1].best_round
    parts = {name: [e.round for e in rounds if name in e.institutions] for name in _names(rounds)}
    counted = regulars({name: len(numbers) for name, numbers in parts.items()}, len(rounds))
    by_number = {event.round: event for event in rounds}
    measured, missing = {}, {}
    for name, numbers in parts.items():
        earlier = [number for number in numbers if number <= best]
        if name in counted and earlier:
            measured[name] = by_number[earlier[-1]].institutions[name]
            continue
        missing[name] = f"took part in {len(numbers)} of {len(rounds)} rounds" + (
            f", the last is {numbers[-1]}" if numbers else ""
        )
    return measured, missing


def missing_text(missing: Mapping[str, str]) -> str:
    """Return who does not count in a headline, and why; nothing where all do."""
    shown = [f"{name} ({why})" for name, why in missing.items()]
    return f"; without {', '.join(shown)}" if shown else ""


def _names(rounds: Sequence[RoundEvent]) -> list[str]:
    return sorted({name for event in rounds for name in (*event.institutions, *event.missing)})
