"""What the tests of faults share: small runs, a run's journal and files, waiting."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from deploy.engines.kit_host import Process
from fedgt_client.data.partition import institution_graphs
from fedgt_client.graph import Graph
from shared.config import Scalar
from shared.files import Array, open_tensors
from tests.harness.federation import HarnessFederation

A, B, C = "bank-a", "bank-b", "bank-c"

TIMEOUT = 600.0  # seconds for anything, on a machine that has other things to do
# Flower takes longer than this to notice that a supernode is gone.
UNNOTICED = 35.0  # seconds
_POLL = 0.2  # seconds

SMALL: dict[str, Scalar] = {
    "hidden": 16,
    "heads": 2,
    "samples": 4,
    "global-nodes": 4,
    # Noise from the operating system would make every run another one.
    "ldp-noise-seed": 0,
    "round-deadline": TIMEOUT,
    "give-up-after": TIMEOUT,
}

# Rounds enough to last as long as a test needs.
ENDLESS = 100_000

processes_over_tls = [
    pytest.mark.slow,
    pytest.mark.skipif(
        " " in sys.prefix,
        reason="Flower's SuperLink has no database in an environment whose path has a space",
    ),
]

T = TypeVar("T")


def banks(*names: str) -> dict[str, Graph]:
    """Return data of as many institutions."""
    graphs = institution_graphs("consortium", clients=len(names), setting="disjoint", seed=0)
    return dict(zip(names, graphs, strict=True))


def wait_until(look: Callable[[], T | None], what: str) -> T:
    """Look until there is something to see, and return it."""
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(_POLL)
    raise AssertionError(f"not within {TIMEOUT:.0f} s: {what}")


@contextmanager
def logs_on_failure(federation: HarnessFederation) -> Iterator[None]:
    """Show the end of every machine's log when the block fails."""
    try:
        yield
    except BaseException:
        for host in (federation.coordinator, *federation.institutions.values()):
            if host.log.exists():
                lines = host.log.read_text(errors="replace").splitlines()[-60:]
                print(f"--- {host.folder.name}", *lines, sep="\n")
        raise


# --- what a run has written -------------------------------------------------------------------


def events(run: Path, name: str) -> list[dict[str, Any]]:
    """Return the journal's events of a name; a line that is being written is left out."""
    journal = run / "journal.jsonl"
    if not journal.exists():
        return []
    lines = journal.read_bytes().split(b"\n")[:-1]
    return [event for event in map(json.loads, lines) if event["event"] == name]


def ample(run: Path) -> float:
    """Return a deadline that rounds like those of ``run`` keep, even a few times slower."""
    slowest = max(float(event["seconds"]) for event in events(run, "round"))
    return max(UNNOTICED - 5.0, 4.0 * slowest)


def check_deadline(facts: dict[str, Any], deadline: float) -> None:
    """Check that a round with a silent institution lasted to its deadline or Flower's timeout."""
    assert facts["seconds"] >= min(deadline, UNNOTICED)


def wait_for_round(
    run: Path,
    fits: Callable[[dict[str, Any]], bool],
    what: str,
    *,
    after: int = 0,
    meanwhile: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Return the first round after ``after`` that fits, once it has ended."""

    def look() -> dict[str, Any] | None:
        meanwhile()
        assert not events(run, "failed"), events(run, "failed")
        later = (event for event in events(run, "round") if event["round"] > after)
        return next((event for event in later if fits(event)), None)

    return wait_until(look, what)


def wait_for_checkpoint(run: Path, number: int) -> None:
    """Wait until a round's checkpoint is whole, or a later one's."""

    def look() -> bool:
        found = (run / "checkpoints").glob("round-*.json")
        return any(int(path.stem.removeprefix("round-")) >= number for path in found)

    wait_until(look, f"a checkpoint of round {number} in {run.name}")


def final_bytes(federation: HarnessFederation, run: Path, rounds: int) -> dict[str, bytes]:
    """Return all arrays of coordinator and institutions after the last round, byte for byte."""
    name = f"round-{rounds:06d}.safetensors"
    files = {"coordinator": run / "checkpoints" / name} | {
        institution: state_folder(federation, institution, run.name) / name
        for institution in federation.institutions
    }
    return {owner: path.read_bytes() for owner, path in files.items()}


def state_folder(federation: HarnessFederation, institution: str, run: str) -> Path:
    """Return the folder of an institution's durable state."""
    host = federation.institutions[institution].folder
    return host / "state" / federation.name / run / institution


def steps(state: Path) -> int:
    """Return how many steps the optimiser has taken up to a round's state."""
    counts: dict[str, Array] = {
        name: array for name, array in open_tensors(state).items() if name.startswith("adam.step.")
    }
    return int(max(float(count) for count in counts.values()))


# --- processes --------------------------------------------------------------------------------


def kill_serverapp(superlink: Process) -> None:
    """Kill the ServerApp, and nothing else of the coordinator."""
    children = psutil.Process(superlink.pid).children(recursive=True)
    apps = [one for one in children if any("flwr-serverapp" in part for part in one.cmdline())]
    assert apps, "no ServerApp is running"
    for app in apps:
        app.kill()
    psutil.wait_procs(apps, timeout=30)
