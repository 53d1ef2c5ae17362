"""What of a kit's files is of no use any more: found first, and deleted only when asked to."""

import re
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from deploy.doctor.kit import CoordinatorKit, InstitutionKit
from deploy.engines.resume import is_finished
from deploy.engines.run_list import results_folders
from deploy.supernode_record import flower_folder, running_supernode
from fedgt_server.earlier_run import JOURNAL
from fedgt_server.lock import is_locked

_DAY = 86400.0
# As a coordinator and an institution name a run that another one of its name has set aside.
_SET_ASIDE = re.compile(r"(.+)\.(?:[0-9a-f]{8}|earlier)(?:-\d+)?")


@dataclass(frozen=True)
class Leftover:
    """A file or folder that may be deleted, and why."""

    path: Path
    why: str
    size: int


def leftovers(kit: Path, days: float) -> list[Leftover]:
    """Return what may be deleted; of that which is only old, what is older than ``days``.

    Keys, settings, records and ledgers are never among them; journals, results and best models only
    where their run was set aside for another one of its name.
    """
    found = _coordinator(kit, days) if CoordinatorKit.is_in(kit) else _institution(kit, days)
    return [Leftover(path, why, _size(path)) for path, why in found]


def delete(found: list[Leftover]) -> None:
    """Delete files and folders."""
    for one in found:
        if one.path.is_dir():
            shutil.rmtree(one.path)
        else:
            one.path.unlink(missing_ok=True)


def _coordinator(kit: Path, days: float) -> Iterator[tuple[Path, str]]:
    journals = (path for folder in results_folders(kit) for path in folder.glob(f"*/{JOURNAL}"))
    for run in sorted(path.parent for path in journals):
        if is_locked(run):
            continue
        earlier = _earlier(run.name)
        if earlier and (run.parent / earlier).exists() and _is_old(run, days):
            yield run, f"an earlier run '{earlier}', set aside more than {days:g} days ago"
        elif (run / "checkpoints").exists() and is_finished(run):
            yield run / "checkpoints", "of a finished run, which cannot be resumed"
    yield from _bundles(kit, days, "apps")


def _institution(kit: Path, days: float) -> Iterator[tuple[Path, str]]:
    opened = InstitutionKit.open(kit)
    states = sorted(opened.state_dir.glob(f"{opened.federation}/*/{opened.institution}"))
    newest = max(states, key=_time, default=None)
    for state in states:
        if state == newest or not _is_old(state, days):
            continue
        run = state.parent.name
        earlier = _earlier(run)
        if earlier and (state.parents[1] / earlier).exists():
            yield state, f"state of an earlier run '{earlier}', not used for {days:g} days"
            continue
        for file in sorted(state.glob("round-*.safetensors")):
            yield file, f"training state of run '{run}', not used for {days:g} days"
    if running_supernode(flower_folder(kit)) is None:
        for prepared in sorted((kit / "cache").glob("*")):
            if _is_old(prepared, days):
                yield prepared, "prepared data, which is made again when it is needed"
    yield from _bundles(kit, days, "approved")


def _earlier(run: str) -> str:
    """Return the name that a run had before it was set aside; empty where it was not."""
    found = _SET_ASIDE.fullmatch(run)
    return found[1] if found else ""


def _bundles(kit: Path, days: float, name: str) -> Iterator[tuple[Path, str]]:
    for bundle in sorted((flower_folder(kit) / name).glob("*")):
        if _is_old(bundle, days):
            yield bundle, "an unpacked app, which is unpacked again when it is needed"


def _is_old(path: Path, days: float) -> bool:
    return time.time() - _time(path) > days * _DAY


def _time(path: Path) -> float:
    """Return when anything in it was changed last."""
    below = path.rglob("*") if path.is_dir() else ()
    times: list[float] = [one.stat().st_mtime for one in (path, *below)]
    return max(times)


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(one.stat().st_size for one in files if one.is_file())
