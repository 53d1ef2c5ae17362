"""The ledger: what an institution has released of its data, over all runs.

A file of JSON lines for each digest of data, to which a line is added before an upload leaves.
"""

import json
import logging
import os
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
    content: str  # SHA-256 of what is sent
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


class Ledger:
    """Entries on disk and their sums in memory; without a path it is in memory alone.

    Processes may share a file: each reads what others have added since it last looked.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._spent = Spent()
        self._seen: set[tuple[str, str, str, int, str]] = set()
        self._offset = 0  # of what is not read yet

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
        lock = FileLock(self._path.with_suffix(".lock"), timeout=_LOCK_SECONDS, mode=0o600)
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
            self._offset = append_line(self._path, entry.model_dump_json().encode())
        self._count(entry)

    def _catch_up(self) -> None:
        """Count the entries that were added since the last call."""
        if self._path is None or not self._path.exists():
            return
        with self._path.open("rb") as stream:
            if os.fstat(stream.fileno()).st_size < self._offset:
                logger.warning("%s became shorter: it is read again", self._path)
                self._spent, self._seen, self._offset = Spent(), set(), 0
            stream.seek(self._offset)
            for line in stream:
                if not line.endswith(b"\n"):
                    break  # being written, or cut off by a crash before its upload left
                self._offset += len(line)
                if line.strip():
                    self._count_line(line)

    def _count_line(self, line: bytes) -> None:
        try:
            self._count(Entry.model_validate_json(line))
        except ValidationError:
            _check_version(self._path, line)
            # Written in part: its upload never left, as that waits for the whole line.
            logger.warning("%s has a damaged line, which is skipped", self._path)

    def _count(self, entry: Entry) -> None:
        self._seen.add(_key(entry))
        self._spent.add(entry.release)


def read_entries(path: Path) -> Iterator[Entry]:
    """Yield the entries of a ledger, oldest first; damaged lines are skipped."""
    with path.open("rb") as stream:
        for line in stream:
            try:
                yield Entry.model_validate_json(line)
            except ValidationError:
                continue


def _check_version(path: Path | None, line: bytes) -> None:
    """Refuse a ledger that a newer version has written to: what it spent must not be left out."""
    with suppress(ValueError):
        found = json.loads(line)
        if isinstance(found, dict) and found.get("format", 1) != 1:
            raise FedGTError(
                f"{path} holds entries of format {found['format']!r}, this version knows 1: "
                "use the FedGT that wrote it"
            )


def _key(entry: Entry) -> tuple[str, str, str, int, str]:
    return entry.federation, entry.run, entry.institution, entry.round, entry.content
