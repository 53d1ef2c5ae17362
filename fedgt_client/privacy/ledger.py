"""The ledger: what an institution has released of its data, over all runs.

A file of JSON lines for each digest of data, to which a line is added before an upload leaves.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedgt_client.privacy.append import append_line
from fedgt_client.privacy.release import Release
from fedgt_client.privacy.spent import Spent
from shared.errors import FedGTError

logger = logging.getLogger(__name__)

FOLDER = "ledger"
RUN_LEDGER = "ledger.jsonl"  # of a simulated institution, in its state
_LOCK = "ledger.lock"
_LOCK_SECONDS = 60.0


class Entry(BaseModel):
    """One upload."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    time: str = Field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    federation: str
    run: str
    institution: str
    round: int
    content: str  # SHA-256 of the arrays that are sent
    metrics: str = ""  # SHA-256 of the metrics that have noise; empty: none has
    release: Release


def ledger_path(state_root: Path, digest: str) -> Path:
    """Return where the ledger of the data with this digest lies."""
    return state_root / FOLDER / f"{digest[:32]}.jsonl"


def carry_over(state_root: Path, earlier: str, digest: str) -> None:
    """Go on with the ledger that an earlier version kept of the same data, if there is one.

    Under both names: records of earlier runs know it by the old one.
    """
    source, target = ledger_path(state_root, earlier), ledger_path(state_root, digest)
    if source != target and source.exists():
        with suppress(FileExistsError):
            target.hardlink_to(source)


def run_ledger(state_folder: Path, digest: str) -> Path | None:
    """Return the ledger that belongs to a run's state, None where there is none."""
    # The state's folder is root/federation/run/institution.
    for path in (state_folder / RUN_LEDGER, ledger_path(state_folder.parents[2], digest)):
        if path.exists():
            return path
    return None


_Key = tuple[str, str, str, int, str, str]


class Ledger:
    """Entries on disk and their sums in memory; without a path it is in memory alone.

    Processes may share a file: each reads what others have added since it last looked.

    Parameters
    ----------
    path : of the data's ledger; None: in memory
    institution : whose entries in the ledgers beside it count as well. Data that was imported again
        with another link has a ledger of its own, and tells of the same people; empty: none
    """

    def __init__(self, path: Path | None, institution: str = "") -> None:
        self._path = path
        self._institution = institution
        self._spent = Spent()
        self._seen: set[_Key] = set()
        self._offsets: dict[Path, int] = {}  # of what is not read yet

    @property
    def folder(self) -> Path | None:
        """Where the file lies; None: it is in memory."""
        return self._path.parent if self._path else None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from adding entries; read theirs first."""
        if self._path is None:
            yield
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Of all ledgers here: together they must stay within a budget.
        lock = FileLock(self._path.parent / _LOCK, timeout=_LOCK_SECONDS, mode=0o600)
        try:
            lock.acquire()
        except Timeout:
            raise FedGTError(
                f"{self._path} is locked for {_LOCK_SECONDS:.0f} s: is another process stuck?"
            ) from None
        try:
            self._catch_up()
            yield
        finally:
            lock.release()

    def spent(self) -> Spent:
        """Return the sums over all entries."""
        self._catch_up()
        return self._spent

    def contains(self, entry: Entry) -> bool:
        """Tell whether this very upload stands in the ledger already."""
        return _key(entry) in self._seen

    def append(self, entry: Entry) -> None:
        """Add an upload that is about to leave; call it within ``locked``."""
        if self._path is not None:
            self._offsets[self._path] = append_line(self._path, entry.model_dump_json().encode())
        self._count(entry)

    def contents(self) -> set[str]:
        """Return the content of every upload that stands in it."""
        self._catch_up()
        return {content for *_, content, _ in self._seen}

    def _catch_up(self) -> None:
        """Count the entries that were added since the last call."""
        paths = self._paths()
        if any(_size(path) < offset for path, offset in self._offsets.items()):
            # What was counted stays counted.
            logger.warning("a ledger in %s became shorter: all are read again", self.folder)
            self._offsets.clear()
        for path in paths:
            self._read(path)

    def _paths(self) -> list[Path]:
        """Return the ledger and, where they count, those beside it."""
        if self._path is None:
            return []
        beside = self._path.parent.glob("*.jsonl") if self._institution else ()
        return [path for path in (self._path, *sorted({*beside} - {self._path})) if path.exists()]

    def _read(self, path: Path) -> None:
        with path.open("rb") as stream:
            stream.seek(self._offsets.get(path, 0))
            for line in stream:
                if not line.endswith(b"\n"):
                    break  # being written, or cut off by a crash before its upload left
                self._offsets[path] = self._offsets.get(path, 0) + len(line)
                entry = _parsed(path, line) if line.strip() else None
                if entry and (path == self._path or entry.institution == self._institution):
                    self._count(entry)

    def _count(self, entry: Entry) -> None:
        """Add an entry to the sums; the same file may have two names (see ``carry_over``)."""
        if _key(entry) not in self._seen:
            self._seen.add(_key(entry))
            self._spent.add(entry.release)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _parsed(path: Path, line: bytes) -> Entry | None:
    try:
        return Entry.model_validate_json(line)
    except ValidationError:
        _check_version(path, line)
        # Written in part: its upload never left, as that waits for the whole line.
        logger.warning("%s has a damaged line, which is skipped", path)
        return None


def read_entries(path: Path) -> Iterator[Entry]:
    """Yield the entries of a ledger, oldest first; damaged lines are skipped."""
    with path.open("rb") as stream:
        for line in stream:
            try:
                yield Entry.model_validate_json(line)
            except ValidationError:
                continue


def _check_version(path: Path, line: bytes) -> None:
    """Refuse a ledger that a newer version has written to: what it spent must not be left out."""
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
        if isinstance(found, dict) and found.get("format", 1) != 1:
            raise FedGTError(
                f"{path} holds entries of format {found['format']!r}, this version knows 1: "
                "use the FedGT that wrote it"
            )


def _key(entry: Entry) -> _Key:
    upload = (entry.content, entry.metrics)
    return entry.federation, entry.run, entry.institution, entry.round, *upload
