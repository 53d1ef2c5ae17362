"""A long run in one process: ``python -m tests.soak.in_process --rounds 2000``.

The real strategy, client, journal, checkpoints and states, of three small institutions. Prints
what the process held in the third and in the last quarter, and what is left behind.
"""

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

import psutil

from deploy.engines.in_process import run_in_process, with_output_paths
from deploy.settings import resolve_settings
from fedgt_server.events import RoundEvent
from shared.config import Scalar
from tests.soak.growth import TOLERATED, Held

INSTITUTIONS = 3
SETTINGS: dict[str, Scalar] = {
    "dataset": "consortium",
    "hidden": 16,
    "heads": 2,
    "samples": 4,
    "global-nodes": 4,
    "threads": 1,
}


def soak(folder: Path, rounds: int) -> list[str]:
    """Play the rounds; print figures, and return what is wrong."""
    process, held = psutil.Process(), Held()
    played: list[tuple[int, int]] = []  # rounds, and how many institutions they account for
    before = {child.pid for child in process.children(recursive=True)}

    def observe(event: RoundEvent) -> None:
        held.look(process)
        played.append((event.round, len(event.institutions) + len(event.missing)))

    values = with_output_paths(SETTINGS | {"rounds": rounds}, folder / "run", INSTITUTIONS)
    started = time.monotonic()
    run_in_process(resolve_settings(values), INSTITUTIONS, observe)
    print(f"{len(played)} rounds in {time.monotonic() - started:.0f} s: {held.text()}")
    wrong = []
    if held.growth() > TOLERATED:
        wrong.append("the memory grows")
    if held.files[-1] > held.files[len(held.files) // 2]:
        wrong.append(f"open files: {held.files[len(held.files) // 2]}, then {held.files[-1]}")
    if [number for number, _ in played] != list(range(1, rounds + 1)):
        wrong.append("a round is missing")
    if gaps := [number for number, found in played if found != INSTITUTIONS]:
        wrong.append(f"institutions that rounds do not account for: {gaps[:5]}")
    children = {child.pid for child in process.children(recursive=True)} - before
    wrong += [f"still running: {pid}" for pid in sorted(children)]
    files = [path for path in folder.rglob("*") if path.is_file()]
    print(f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB")
    wrong += [f"left: {path.name}" for path in files if path.name.startswith((".tmp", "tmp"))]
    return wrong


def main() -> int:
    """Return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2000)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        wrong = soak(Path(folder), given.rounds)
    print("\n".join(wrong) or "clean")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
