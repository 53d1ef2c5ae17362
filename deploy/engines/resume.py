"""Find the run to continue after its coordinator ended too early."""

import time
from collections.abc import Sequence
from pathlib import Path

from deploy.engines.run_list import results_folders
from fedgt_server.checkpoint import Checkpoints
from fedgt_server.events import EndEvent
from fedgt_server.journal import Journal
from fedgt_server.lock import is_locked
from shared.config import RunConfig
from shared.earlier_settings import LATER_SETTINGS
from shared.errors import FedGTError

_TIMEOUT = 15.0  # seconds; a ServerApp outlives its SuperLink for a moment
_POLL = 0.5  # seconds


def resumable_config(kit: Path, name: str = "", results: Path | None = None) -> RunConfig:
    """Return the settings that continue a coordinator's run, by default the most recent one.

    All are those that the run was started with: another model or schedule would not continue it.

    Raises
    ------
    FedGTError
        When there is nothing to continue, in a line that says why.
    """
    folder = _run_folder([results] if results else results_folders(kit), name)
    if is_finished(folder):
        raise FedGTError(f"the run '{folder.name}' is finished: there is nothing to resume")
    _wait_until_unlocked(folder)
    checkpoint = Checkpoints(folder / "checkpoints").newest()
    if checkpoint is None:
        raise FedGTError(
            f"the run '{folder.name}' has no checkpoint, because no round was finished: "
            "start it again with ./run.sh"
        )
    # A run without a name of its own is known by the number that Flower gave it.
    values = LATER_SETTINGS | checkpoint.facts.config
    values |= {"resume": True, "replace": False, "run-name": folder.name}
    if (kit / str(values.get("results-dir", "runs"))).resolve() != folder.parent.resolve():
        values["results-dir"] = str(folder.parent.resolve())  # it was moved or restored
    return RunConfig.build(values)


def is_finished(folder: Path) -> bool:
    """Tell whether the run in ``folder`` has played all its rounds."""
    return any(isinstance(event, EndEvent) for event in Journal(folder / "journal.jsonl").read())


def _run_folder(places: Sequence[Path], name: str) -> Path:
    found = (path for place in places for path in place.glob("*/journal.jsonl"))
    journals = sorted(found, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    folders: dict[str, Path] = {}
    for path in journals:
        folders.setdefault(path.parent.name, path.parent)
    where = " and ".join(map(str, places))
    if not folders:
        raise FedGTError(f"{where} holds no run: there is nothing to resume")
    if name and name not in folders:
        raise FedGTError(f"{where} holds no run '{name}'; there are: {', '.join(folders)}")
    return folders[name] if name else next(iter(folders.values()))


def _wait_until_unlocked(folder: Path) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while is_locked(folder):
        if time.monotonic() > deadline:
            raise FedGTError(
                f"the run '{folder.name}' is still running: 'fedgt stop {folder.name}' ends it"
            )
        time.sleep(_POLL)
