"""``fedgt bench attacks``: what is left of the honest institutions' accuracy under attack.

Six institutions of the synthetic consortium, of which the last, or the last two, attack. Every
row is of the first four, so that rows compare. A run is a line in a file of records as soon as it
is over: what was interrupted goes on where it was.
"""

import json
import logging
import statistics
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from experiments.attacks.catalogue import (
    ADAPTIVE,
    ATTACKS,
    CRUDE,
    OF_AVERAGES,
    PATIENT,
    SLEEPERS,
)
from experiments.attacks.flower_rules import RULES, with_rule
from experiments.attacks.hostile import Outcome, play
from experiments.benchmarks.measure import machine
from experiments.benchmarks.progress import Progress
from experiments.benchmarks.report import Report, Row, Table
from fedgt_server.methods import ServerMethod
from shared.config import RunConfig, Scalar

INSTITUTIONS, ROUNDS, SEEDS = 6, 15, (0, 1, 2)
NOBODY = "none"
ALONE = "alone"
_OUTSIDERS = (5, 6)
_COMPARED = ("sign-flip", "×−100", "noise 10× the norm", "sign-flip under the limit")


class Case(NamedTuple):
    """One cell of a table, of all its seeds."""

    defence: str  # a setting of FedGT, a method, or a rule of Flower's
    attack: str
    attackers: int


class _Defence(NamedTuple):
    values: dict[str, Scalar]
    server: Callable[[RunConfig], ServerMethod] | None = None


DEFENCES: dict[str, _Defence] = {
    "FedGT": _Defence({}),
    "FedGT, agreeing-only": _Defence({"agreeing-only": True}),
    "FedGT, robust off": _Defence({"robust": False}),
    "FedAvg": _Defence({"method": "fedavg"}),
    "FedAvg, robust off": _Defence({"method": "fedavg", "robust": False}),
    ALONE: _Defence({"method": "local"}),
    **{name: _Defence({"robust": False}, with_rule(name)) for name in RULES},
}


def cases(rounds: int = ROUNDS) -> list[Case]:
    """Return all cells of runs of so many rounds, those that answer most first."""
    found = [Case("FedGT", NOBODY, 0), Case(ALONE, NOBODY, 0)]
    found += _rows("FedGT", CRUDE | ADAPTIVE)
    if rounds >= PATIENT:  # before, agreeing-only is what FedGT does in any case
        for name in ("FedGT", "FedGT, agreeing-only"):
            found += _rows(name, SLEEPERS)
        found.append(Case("FedGT, agreeing-only", NOBODY, 0))
    found += [Case("FedAvg", NOBODY, 0), *_rows("FedAvg", OF_AVERAGES)]
    for name in ("FedGT, robust off", *RULES):
        found += [Case(name, NOBODY, 0), *_rows(name, _COMPARED)]
    return [*found, Case("FedAvg, robust off", NOBODY, 0)]


def _rows(defence: str, attacks: Iterable[str]) -> list[Case]:
    return [Case(defence, attack, count) for attack in attacks for count in (1, 2)]


def bench(
    chosen: list[Case], seeds: Iterable[int], rounds: int, records: Path, progress: Progress
) -> Report:
    """Play what is not yet in the records; report all that is asked for."""
    seeds = tuple(seeds)
    done = read(records)
    for seed in seeds:
        for case in chosen:
            if (case, seed, rounds) not in done:
                progress(f"{case.defence}: {case.attack}, {case.attackers} attackers, seed {seed}")
                outcome = one(case, seed, rounds)
                done[case, seed, rounds] = outcome
                _append(records, case, seed, rounds, outcome)
    found = {case: [done[case, seed, rounds] for seed in seeds] for case in chosen}
    return _report(found, seeds, rounds)


def one(case: Case, seed: int, rounds: int) -> Outcome:
    """Play one run."""
    defence = DEFENCES[case.defence]
    attackers = _OUTSIDERS[len(_OUTSIDERS) - case.attackers :] if case.attackers else ()
    logging.disable(logging.WARNING)
    try:
        with tempfile.TemporaryDirectory() as folder:
            return play(
                Path(folder) / "run",
                # The noise too, so that a row is the same whenever it is played.
                {
                    "seed": seed,
                    "ldp-noise-seed": seed,
                    "rounds": rounds,
                    "threads": 1,
                    **defence.values,
                },
                institutions=INSTITUTIONS,
                attackers=attackers,
                attack=ATTACKS.get(case.attack),
                outsiders=_OUTSIDERS,
                server=defence.server,
            )
    finally:
        logging.disable(logging.NOTSET)


Done = dict[tuple[Case, int, int], Outcome]


def read(records: Path) -> Done:
    """Return the runs that are over, by case, seed and rounds."""
    found: Done = {}
    for line in records.read_text().splitlines() if records.exists() else ():
        entry = json.loads(line)
        key = Case(*(entry[name] for name in Case._fields)), entry["seed"], entry["rounds"]
        found[key] = Outcome(**entry["outcome"])
    return found


def _append(records: Path, case: Case, seed: int, rounds: int, outcome: Outcome) -> None:
    records.parent.mkdir(parents=True, exist_ok=True)
    line = case._asdict() | {"seed": seed, "rounds": rounds, "outcome": vars(outcome)}
    with records.open("a") as stream:
        stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def _report(found: dict[Case, list[Outcome]], seeds: tuple[int, ...], rounds: int) -> Report:
    quiet = {case.defence: outcomes for case, outcomes in found.items() if case.attack == NOBODY}
    rows = []
    for case, outcomes in found.items():
        row: Row = {
            "defence": case.defence,
            "attack": case.attack,
            "attackers": case.attackers,
            "last": round(statistics.fmean(one.last for one in outcomes), 1),
            "kept": round(statistics.fmean(one.kept for one in outcomes), 1),
            "rounds": min(one.rounds for one in outcomes),
        }
        if case.attack != NOBODY and case.defence in quiet:
            for key in ("last", "kept"):
                before = statistics.fmean(getattr(one, key) for one in quiet[case.defence])
                now = statistics.fmean(getattr(one, key) for one in outcomes)
                row[f"{key}_lost"] = round(before - now, 1)
        rows.append(row)
    headings = {
        "defence": "averages",
        "attack": "attack",
        "attackers": "attackers of 6",
        "last": "last round, test %",
        "last_lost": "points lost",
        "kept": "kept round, test %",
        "kept_lost": "points lost",
        "rounds": "rounds played",
    }
    title = f"consortium, {INSTITUTIONS} institutions, {rounds} rounds, seeds {_list(seeds)}"
    return Report(
        bench="attacks",
        command="fedgt bench attacks",
        machine=machine(),
        tables=(Table.of("attacks", title, headings, rows, labels=3),),
        notes=(
            "Mean test accuracy of the four institutions that never attack, as they measure it "
            "themselves. Points lost are beside the same averages when nobody attacks.",
        ),
    )


def _list(seeds: tuple[int, ...]) -> str:
    return ", ".join(map(str, seeds))
