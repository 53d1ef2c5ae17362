"""The tables of docs/security.md, from the records of ``fedgt bench attacks``."""

import statistics
from collections.abc import Callable
from pathlib import Path

from experiments.benchmarks.attacks import (
    ALONE,
    INSTITUTIONS,
    NOBODY,
    SEEDS,
    Case,
    Done,
    cases,
    read,
)
from experiments.benchmarks.report import EMPTY, markdown

_HEADINGS = ("attack", "seeds", "1 attacker", "lost", "2 attackers", "lost")


def attack_tables(records: Path) -> str:
    """Return a table for each defence and length of runs; rows only of what was played."""
    done = read(records)
    parts = []
    for rounds in sorted({rounds for _, _, rounds in done}):
        played = [case for case in cases(rounds) if _seeds(done, case, rounds)]
        for defence in dict.fromkeys(case.defence for case in played if case.defence != ALONE):
            attacks = dict.fromkeys(case.attack for case in played if case.defence == defence)
            rows = [_row(done, defence, attack, rounds) for attack in attacks]
            alone = Case(ALONE, NOBODY, 0)
            if alone in played and defence == "FedGT":
                rows.insert(1, _unattacked(done, alone, rounds, "training alone"))
            title = f"{defence}, {INSTITUTIONS} institutions, {rounds} rounds:"
            parts.append(f"{title}\n\n{markdown(_HEADINGS, rows)}")
    return "\n".join(parts) if parts else "Not measured yet.\n"


def _row(done: Done, defence: str, attack: str, rounds: int) -> list[str]:
    quiet = Case(defence, NOBODY, 0)
    if attack == NOBODY:
        return _unattacked(done, quiet, rounds, "nobody attacks")
    cells, seeds = [], set[int]()
    for count in (1, 2):
        case = Case(defence, attack, count)
        seeds |= {*_seeds(done, case, rounds)}
        both = [s for s in _seeds(done, case, rounds) if (quiet, s, rounds) in done]
        cells += [_accuracies(done, case, rounds), _lost(done, case, quiet, both, rounds)]
    return [attack, _listed(seeds), *cells]


def _unattacked(done: Done, case: Case, rounds: int, name: str) -> list[str]:
    seeds = _seeds(done, case, rounds)
    return [name, _listed({*seeds}), _accuracies(done, case, rounds), "", "", ""]


def _seeds(done: Done, case: Case, rounds: int) -> list[int]:
    return [seed for seed in SEEDS if (case, seed, rounds) in done]


def _accuracies(done: Done, case: Case, rounds: int) -> str:
    found = [done[case, seed, rounds] for seed in _seeds(done, case, rounds)]
    return (
        _pair(lambda key: statistics.fmean(getattr(one, key) for one in found)) if found else EMPTY
    )


def _lost(done: Done, case: Case, quiet: Case, seeds: list[int], rounds: int) -> str:
    """Return points lost beside the same seeds when nobody attacks."""
    if not seeds:
        return EMPTY

    def mean(key: str) -> float:
        return statistics.fmean(
            getattr(done[quiet, s, rounds], key) - getattr(done[case, s, rounds], key)
            for s in seeds
        )

    return _pair(mean)


def _pair(value: Callable[[str], float]) -> str:
    return f"{value('last'):.1f} / {value('kept'):.1f}"


def _listed(seeds: set[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))
