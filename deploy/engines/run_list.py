"""The runs of a coordinator: what the SuperLink says of them, and what their journals say."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from deploy.flower.control import ListedRun, connect_control
from fedgt_server.earlier_run import JOURNAL
from fedgt_server.events import EndEvent, FailedEvent, StartEvent
from fedgt_server.journal import Journal
from fedgt_server.lock import is_locked
from shared.errors import FedGTError


@dataclass(frozen=True)
class RunLine:
    """A run, as ``fedgt runs`` shows it."""

    name: str
    state: str
    rounds: int
    planned: int | None
    started: str
    number: int | None  # Flower's; None: not known to this SuperLink
    reason: str = ""
    results_dir: str = "runs"


def list_runs(kit: Path) -> list[RunLine]:
    """Return the runs that have a folder or are known to the SuperLink, oldest first.

    Without a SuperLink, those that have a folder.
    """
    try:
        with connect_control(kit) as client:
            known = client.runs()
    except FedGTError:
        if not (kit / "control.toml").exists():
            raise
        known = []
    # Of several runs of a name (resumed ones have new numbers) the last.
    listed = {run.name: run for run in known}
    places = results_folders(kit, known)
    folders = {path.parent.name: path.parent for one in places for path in one.glob(f"*/{JOURNAL}")}
    folders |= {name: kit / run.results_dir / name for name, run in listed.items()}
    is_taken = any(is_locked(folder) for folder in folders.values())
    lines = [_line(name, folder, listed.get(name), is_taken) for name, folder in folders.items()]
    return sorted(lines, key=lambda line: (line.started or "9", line.name))


def results_folders(kit: Path, known: Iterable[ListedRun] = ()) -> list[Path]:
    """Return the folders of a coordinator's runs: runs/, that of run.toml, those of ``known``."""
    try:
        named = tomllib.loads((kit / "run.toml").read_text("utf-8")).get("results-dir", "runs")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        named = "runs"
    found: dict[Path, Path] = {}
    for name in ("runs", str(named), *(run.results_dir for run in known)):
        found.setdefault((kit / name).resolve(), kit / name)
    return list(found.values())


def check_not_under_way(kit: Path, name: str) -> None:
    """Refuse a second run of the same name, under way or waiting."""
    for run in list_runs(kit):
        if run.name == name and run.state in ("running", "waiting"):
            state = "is under way" if run.state == "running" else "waits for its turn"
            raise FedGTError(
                f"the run '{name}' {state}: 'fedgt follow {name}' shows it, 'fedgt stop {name}' "
                "ends it"
            )


def _line(name: str, folder: Path, run: ListedRun | None, is_taken: bool) -> RunLine:
    events = list(Journal(folder / JOURNAL).read())
    start = next((event for event in events if isinstance(event, StartEvent)), None)
    planned = start.config.get("rounds") if start else None
    state, reason = _state(folder, events[-1] if events else None, run, is_taken)
    began = start.time if start else (run.started if run else "")
    return RunLine(
        name,
        state,
        len(Journal(folder / JOURNAL).rounds()),
        planned if isinstance(planned, int) else None,
        began.partition("+")[0].partition(".")[0].replace("T", " "),
        run.run_id if run else None,
        reason,
        run.results_dir if run else str(folder.parent.absolute()),
    )


def _state(folder: Path, last: object, run: ListedRun | None, is_taken: bool) -> tuple[str, str]:
    """Return the state of a run and what is to be said of it; ``is_taken``: one is under way."""
    if is_locked(folder):
        return "running", ""
    if isinstance(last, EndEvent):
        return "finished", ""
    if run and not run.is_over:
        if is_taken:
            return "waiting", "it begins when the run before it is over"
        if last is None or isinstance(last, FailedEvent):
            return "starting", ""
        # The SuperLink hears no more of it, and notices that within a minute.
        return "ended early", "its process is gone, or starts just now; ./resume.sh continues it"
    if isinstance(last, FailedEvent):
        return last.status, last.reason
    if not folder.exists():
        reason = (run.state.reason if run else "") or "its folder is not there"
        return "stopped" if run and run.state.is_stopped else "failed", reason
    return "ended early", "./resume.sh continues it"
