"""Find a run and the other runs on the same data, by their folders."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fedgt_server.events import StartEvent
from fedgt_server.journal import Journal
from fedgt_server.result import Result, read_result
from shared.config import Scalar
from shared.errors import FedGTError

JOURNAL = "journal.jsonl"
# What 'fedgt run --compare' and 'fedgt demo' write beside the folders of their runs.
_COMPARISONS = ("comparison.json", "demo.json")
# Methods without any exchange: a baseline, not what the page is about.
ALONE = ("local", "gcn")
# Settings that say which data a run has, and how it is split.
_DATA_KEYS = ("dataset", "setting", "seed")


@dataclass(frozen=True)
class FoundRun:
    """A run, and finished runs of other methods on the same data, by the names of their folders."""

    folder: Path
    others: dict[str, Result]

    @property
    def journal(self) -> Journal:
        """The journal of the run."""
        return Journal(self.folder / JOURNAL)


def find_run(folder: Path, alone: Path | None = None) -> FoundRun:
    """Find the run in ``folder``, or the one of a comparison that exchanges something.

    Parameters
    ----------
    alone : a run to compare with, besides those that were run together with it
    """
    if not folder.is_dir():
        raise FedGTError(f"{folder} is not a folder: name that of a run")
    compared = _is_comparison(folder.parent)
    if not (folder / JOURNAL).exists():
        folder, compared = _main_run(folder), True
    start = read_start(folder)
    others = dict(_finished_beside(folder)) if compared else {}
    others = {name: other for name, other in others.items() if is_same_data(start, other.config)}
    if alone is not None:
        result = read_result(alone)
        if result is None:
            raise FedGTError(f"{alone} holds no finished run: result.json is missing")
        others[alone.name] = result
    return FoundRun(folder, others)


def read_start(folder: Path) -> StartEvent | None:
    """Return the first event of the run in ``folder``; None where it is not written yet."""
    events = Journal(folder / JOURNAL).read()
    return next((event for event in events if isinstance(event, StartEvent)), None)


def is_same_data(start: StartEvent | None, config: dict[str, Scalar]) -> bool:
    """Return whether a run began with the data that another one was configured with."""
    return start is not None and all(start.config.get(k) == config.get(k) for k in _DATA_KEYS)


def _is_comparison(folder: Path) -> bool:
    return any((folder / name).exists() for name in _COMPARISONS)


def _main_run(folder: Path) -> Path:
    """Return the run of a comparison that the page is about: the first that exchanges something."""
    runs = sorted(path.parent for path in folder.glob(f"*/{JOURNAL}"))
    if not runs:
        raise FedGTError(f"{folder} holds no run: {JOURNAL} is missing")
    starts = {run: read_start(run) for run in runs}
    federated = [run for run, start in starts.items() if _method(start) not in ALONE]
    wanted = [run for run in federated if _method(starts[run]) == "fedgt"]
    return (wanted or federated or runs)[0]


def _method(start: StartEvent | None) -> str:
    return str(start.config.get("method", "")) if start else ""


def _finished_beside(folder: Path) -> Iterator[tuple[str, Result]]:
    """Yield the results of the other runs in the parent folder."""
    for path in sorted(folder.absolute().parent.glob("*/result.json")):
        result = read_result(path.parent) if path.parent != folder.absolute() else None
        if result is not None:
            yield path.parent.name, result
