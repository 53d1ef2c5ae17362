"""A long run over TLS in which institutions die and come back by a seeded plan.

``python -m tests.soak.over_tls --rounds 200``: real Flower processes on this machine, the kits' own
scripts. Institutions are killed as by a power cut, all their processes at once, and start again
some rounds later. Prints what each long-lived process held, and checks that the journal accounts
for every institution in every round.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from deploy.engines.processes import ProcessMark, marked_processes
from fedgt_client.data.partition import institution_graphs
from shared.config import Scalar
from tests.harness.fault_scenarios import SMALL, events
from tests.harness.running_federation import Running
from tests.soak.growth import TOLERATED, Held

NAMES = ("bank-a", "bank-b", "bank-c", "bank-d")
STEADY = NAMES[0]  # is never killed, so that its memory can be followed
RUN = "soak"
_POLL = 2.0  # seconds
_SPACING = 12  # rounds between two deaths, about
_AWAY = (1, 5)  # rounds, from and up to


class Death(NamedTuple):
    """One entry of the plan."""

    institution: str
    after: int  # the round after which it is killed
    back: int  # the round after which it starts again


def make_plan(rounds: int, seed: int) -> list[Death]:
    """Return who dies when, and when it comes back; all are back for the last rounds."""
    rng = np.random.default_rng(seed)
    plan, after = [], 3
    while after + _AWAY[1] + 3 < rounds:
        name = NAMES[1 + int(rng.integers(len(NAMES) - 1))]
        plan.append(Death(name, after, after + int(rng.integers(_AWAY[0], _AWAY[1] + 1))))
        after += int(rng.integers(_SPACING // 2, 3 * _SPACING // 2))
    return plan


class Watched:
    """The long-lived processes of a run, by what they are."""

    def __init__(self, federation: Running) -> None:
        self._federation = federation
        self.held = {what: Held() for what in ("SuperLink", "ServerApp", "supernode", "worker")}

    def look(self) -> None:
        """Add what they hold now: the coordinator's, and those of the steady institution."""
        superlink, supernode = self._federation.superlink, self._federation.supernodes[STEADY]
        assert superlink is not None
        found = {
            "SuperLink": _below(superlink.pid, "fedgt-superlink"),
            "ServerApp": _below(superlink.pid, "flwr-serverapp"),
            "supernode": _below(supernode.pid, "fedgt-supernode"),
            "worker": self._federation.workers().get(STEADY),
        }
        for what, process in found.items():
            if process:
                self.held[what].look(process)


def _below(pid: int, text: str) -> psutil.Process | None:
    """Return the first process of a tree whose command line holds a text."""
    try:
        parent = psutil.Process(pid)
        family = [parent, *parent.children(recursive=True)]
        return next((p for p in family if text in " ".join(p.cmdline())), None)
    except psutil.Error:
        return None


def play(federation: Running, plan: list[Death], rounds: int) -> tuple[Watched, float]:
    """Start the run and follow the plan until it is over; return what was held, and the time."""
    settings: dict[str, Scalar] = SMALL | {
        "run-name": RUN,
        "rounds": rounds,
        "min-institutions": 2,
        "start-institutions": len(NAMES),
    }
    watched, started = Watched(federation), time.monotonic()
    run = federation.start_run(settings)
    todo = sorted(
        [(death.after, "dies", death.institution) for death in plan]
        + [(death.back, "is back", death.institution) for death in plan]
    )
    while run.poll() is None:
        played = len(events(federation.run_folder(RUN), "round"))
        while todo and todo[0][0] <= played:
            _, what, name = todo.pop(0)
            print(f"{time.monotonic() - started:.0f} s, round {played}: {name} {what}", flush=True)
            if what == "dies":
                federation.institutions[name].kill()
            else:
                federation.start_supernode(name)
        if played:
            watched.look()
        time.sleep(_POLL)
    assert run.returncode == 0, f"the run ended with {run.returncode}"
    assert not todo, f"not all of the plan came: {todo}"
    return watched, time.monotonic() - started


def unaccounted(rounds: list[dict[str, Any]], count: int) -> list[str]:
    """Return what the journal does not say: rounds, institutions, and why one is missing."""
    found = []
    numbers = [event["round"] for event in rounds]
    if numbers != list(range(1, count + 1)):
        found.append(f"rounds {numbers[:3]} … {numbers[-3:]}")
    for event in rounds:
        here, missing = set(event["institutions"]), set(event["missing"])
        if here & missing or here | missing != set(NAMES):
            found.append(f"round {event['round']}: {sorted(here)} and without {sorted(missing)}")
        if silent := missing - event["left_out"].keys():
            found.append(f"round {event['round']}: no reason for {sorted(silent)}")
    return found


def leftovers(federation: Running) -> list[str]:
    """Return temporary files that nobody will need."""
    hosts = (federation.coordinator, *federation.institutions.values())
    return [
        str(path)
        for host in hosts
        for path in host.folder.rglob("*")
        if path.is_file() and (path.suffix in (".tmp", ".partial") or path.name.startswith(".tmp"))
    ]


def soak(place: Path, rounds: int, seed: int, mark: ProcessMark) -> list[str]:
    """Run it; print figures, and return what is wrong."""
    graphs = institution_graphs("consortium", clients=len(NAMES), setting="disjoint", seed=0)
    federation = Running(place, mark, dict(zip(NAMES, graphs, strict=True)))
    plan = make_plan(rounds, seed)
    watched, seconds = play(federation, plan, rounds)
    played = events(federation.run_folder(RUN), "round")
    parts = sum(len(event["institutions"]) for event in played)
    missed = sum(len(event["missing"]) for event in played)
    print(f"{len(played)} rounds in {seconds:.0f} s, {len(plan)} deaths, seed {seed}")
    print(f"{parts} parts taken and {missed} missed, of {rounds} rounds x {len(NAMES)}")
    wrong = unaccounted(played, rounds) + [f"left: {path}" for path in leftovers(federation)]
    for what, held in watched.held.items():
        print(f"{what}: {held.text()}")
        if held.growth() > TOLERATED:
            wrong.append(f"the memory of the {what} grows")
    return wrong


def main() -> int:
    """Return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as place, marked_processes() as mark:
        temporary = Path(place) / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)  # of all that is started from here
        wrong = soak(Path(place) / "federation", given.rounds, given.seed, mark)
        mark.end()
        wrong += [f"still running: {process}" for process in mark.processes()]
        wrong += [f"left: {path.name}" for path in temporary.iterdir()]
    print("\n".join(wrong) or "clean")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
