"""Backup of a kit with all that cannot be made again, and its restoration in an empty folder.

A backup may be taken while the kit is in use: files of FedGT are written whole or appended to, and
the SuperLink's database is copied by SQLite itself.
"""

import fcntl
import hashlib
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from deploy.doctor.kit import CoordinatorKit, InstitutionKit
from deploy.engines.run_list import list_runs, results_folders
from shared.errors import FedGTError
from shared.files import atomic_file
from shared.version import installed_version

MANIFEST = "backup.json"
_DATABASE = "state.db"
# Made again by themselves, or of processes that run now.
_LEFT_OUT = {"flower", "cache", "app", "logs", ".venv", MANIFEST}
_LOCKS = {"lock", "supernode.lock", "run.lock"}
_BLOCK = 1 << 20
_MANIFEST_BYTES = 64 << 20


class Manifest(BaseModel):
    """What is in a backup."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    kind: Literal["coordinator", "institution"]
    name: str
    fedgt: str
    time: str
    outside: dict[str, str] = {}  # folders that were not in the kit: where they were
    files: dict[str, str]  # SHA-256 of each


def back_up(kit: Path, target: Path, *, with_data: bool = True) -> Manifest:
    """Write all that a kit needs to go on elsewhere to ``target``, readable by its owner alone."""
    kind, name, folders = _describe(kit, with_data=with_data)
    if target.exists():
        raise FedGTError(f"{target} exists already: a backup replaces no file")
    with tempfile.TemporaryDirectory(dir=target.absolute().parent) as scratch:
        sources = dict(_sources(kit, folders, Path(scratch)))
        with atomic_file(target, mode=0o600) as staging:
            staging.touch(mode=0o600)
            digests: dict[str, str] = {}
            # A file of two names is kept twice: links are not restored.
            with tarfile.open(staging, "w:gz", compresslevel=1, dereference=True) as archive:
                for place, source in sources.items():
                    with suppress(FileNotFoundError):  # an old round, deleted since
                        digests[place] = _add(archive, source, place)
                manifest = Manifest(
                    kind=kind,
                    name=name,
                    fedgt=installed_version(),
                    time=datetime.now(UTC).isoformat(timespec="seconds"),
                    outside={k: str(v) for k, v in folders.items() if not _is_in(v, kit)},
                    files=digests,
                )
                written = Path(scratch) / MANIFEST
                written.write_text(manifest.model_dump_json())
                archive.add(written, MANIFEST)
    return manifest


def restore(source: Path, folder: Path) -> Manifest:
    """Unpack a backup into ``folder``, which must be empty or not there; all of it or nothing."""
    if folder.exists() and any(folder.iterdir()):
        raise FedGTError(f"{folder} is not empty: a backup is restored into a folder of its own")
    folder.absolute().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.absolute().parent) as scratch:
        unpacked = Path(scratch) / "kit"
        unpacked.mkdir(mode=0o700)
        try:
            with tarfile.open(source, "r:gz") as archive:
                for member in archive:
                    if not member.isfile():
                        raise FedGTError(f"{source} is not a backup: {member.name} is no file")
                    archive.extract(member, unpacked, filter="data")
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            raise FedGTError(f"{source} is not a backup, or damaged: {error}") from None
        manifest = _checked(source, unpacked)
        (unpacked / MANIFEST).unlink()
        if folder.exists():
            folder.rmdir()
        unpacked.rename(folder)
    return manifest


def _describe(
    kit: Path, *, with_data: bool
) -> tuple[Literal["coordinator", "institution"], str, dict[str, Path]]:
    """Return whose kit it is, and the folders that may lie elsewhere by their place in it."""
    if CoordinatorKit.is_in(kit):
        return "coordinator", "coordinator", _results(kit)
    opened = InstitutionKit.open(kit)
    folders = {"state": opened.state_dir}
    if with_data:
        folders["data"] = opened.data_dir
    return "institution", opened.institution, folders


def _results(kit: Path) -> dict[str, Path]:
    """Return the folders of a coordinator's runs, also those that have none yet."""
    known = [kit / run.results_dir for run in list_runs(kit)]
    found = dict.fromkeys(path.resolve() for path in [*results_folders(kit), *known])
    return {f"runs-{count}" if count else "runs": path for count, path in enumerate(found)}


def _sources(kit: Path, folders: dict[str, Path], scratch: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files to keep, by their place in the backup."""
    for path in sorted(kit.iterdir()):
        if path.name in _LEFT_OUT or path.name.startswith(_DATABASE):
            continue
        if path.is_file() and path.suffixes[-2:] != [".tar", ".gz"]:  # not an earlier backup
            yield path.name, path
        elif path.name in ("keys", "revoked"):
            yield from _below(path, path.name)
    for place in (_DATABASE, f"database/{_DATABASE}"):  # of the scripts, and of containers
        if (kit / place).exists():
            yield place, _database(kit / place, scratch / place)
    for place, folder in folders.items():
        name = (
            folder.resolve().relative_to(kit.resolve()).as_posix() if _is_in(folder, kit) else place
        )
        if folder.is_dir():
            yield from _below(folder, name)


def _below(folder: Path, place: str) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.name not in _LOCKS:
            yield f"{place}/{path.relative_to(folder).as_posix()}", path


def _database(source: Path, copy: Path) -> Path:
    """Return a consistent copy of a database that may be in use."""
    copy.parent.mkdir(exist_ok=True)
    with (
        closing(sqlite3.connect(f"file:{source.absolute()}?mode=ro", uri=True)) as database,
        closing(sqlite3.connect(copy)) as target,
    ):
        database.backup(target)
    copy.chmod(0o600)
    return copy


def _add(archive: tarfile.TarFile, source: Path, place: str) -> str:
    """Add a file as it is now, though it may grow meanwhile; return its digest."""
    with source.open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)  # a state of an old round is written over otherwise
        entry = archive.gettarinfo(arcname=place, fileobj=stream)
        digest = hashlib.sha256()
        left = entry.size
        while left and (part := stream.read(min(_BLOCK, left))):
            digest.update(part)
            left -= len(part)
        if left:
            raise FedGTError(f"{source} became shorter while it was read: try again")
        stream.seek(0)
        archive.addfile(entry, stream)
    return digest.hexdigest()


def _checked(source: Path, folder: Path) -> Manifest:
    try:
        with (folder / MANIFEST).open("rb") as stream:
            manifest = Manifest.model_validate_json(stream.read(_MANIFEST_BYTES))
    except (OSError, ValidationError):
        raise FedGTError(f"{source} is not a backup of this version of FedGT") from None
    found = {
        path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()
    }
    if found.keys() - {MANIFEST} != manifest.files.keys():
        raise FedGTError(f"{source} is damaged: it has other files than its list")
    for place, digest in manifest.files.items():
        with found[place].open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                raise FedGTError(f"{source} is damaged: {place} is not what was backed up")
    return manifest


def _is_in(place: Path, kit: Path) -> bool:
    return place.resolve().is_relative_to(kit.resolve())
