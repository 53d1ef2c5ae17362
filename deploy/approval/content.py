"""The content of a Flower App Bundle (FAB): read with suspicion, and reduced to a hash."""

import hashlib
import io
import json
import stat
import tomllib
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

from shared.errors import FedGTError

Files = Mapping[str, bytes]  # by their path in the bundle

MANIFEST = ".info/CONTENT"  # Flower's list of hashes of the other files
PROJECT = "pyproject.toml"

_MAX_BUNDLE = 10 << 20  # bytes; Flower's own limit
_MAX_UNPACKED = 64 << 20  # bytes
_MAX_FILES = 2000
_LONGEST_PATH = 200  # characters
_COMPRESSION = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_bundle(bundle: bytes) -> dict[str, bytes]:
    """Return the files of a bundle by their paths.

    Raises
    ------
    FedGTError
        When it is no bundle, or one that two programs might unpack in two ways.
    """
    if len(bundle) > _MAX_BUNDLE:
        raise FedGTError(f"the bundle has {len(bundle)} bytes: at most {_MAX_BUNDLE} are allowed")
    try:
        with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
            return _read(archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise FedGTError(f"the bundle cannot be read ({error})") from None


def _read(archive: zipfile.ZipFile) -> dict[str, bytes]:
    entries = archive.infolist()
    if len(entries) > _MAX_FILES or sum(entry.file_size for entry in entries) > _MAX_UNPACKED:
        raise FedGTError(
            f"the bundle unpacks to too much: {_MAX_FILES} files and {_MAX_UNPACKED} bytes "
            "are allowed"
        )
    files: dict[str, bytes] = {}
    for entry in entries:
        if problem := _problem(entry, files):
            raise FedGTError(f"the bundle has an entry {shown(entry.orig_filename)} that {problem}")
        # Not more than it says, whatever it holds.
        with archive.open(entry) as stream:
            files[entry.filename] = stream.read(entry.file_size)
    if PROJECT not in files:
        raise FedGTError(f"the bundle has no {PROJECT}")
    return files


def _problem(entry: zipfile.ZipInfo, files: Files) -> str | None:
    """Return what is wrong with an entry of an archive."""
    path = entry.filename
    if path in files:
        return "stands there twice"
    if (
        # zipfile ends a name at a zero byte.
        path != entry.orig_filename
        or len(path) > _LONGEST_PATH
        or not path.isprintable()
        or "\\" in path
        or ":" in path
        or any(part in ("", ".", "..") for part in path.split("/"))
    ):
        return "is not a relative path of a file"
    if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG):
        return "is not a regular file"
    if entry.flag_bits & 1 or entry.compress_type not in _COMPRESSION:
        return "is encrypted, or packed in a way that Flower does not use"
    return None


def content_hash(files: Files) -> str:
    """Return the hash of all files of a bundle that can make a difference at an institution.

    Bytes count, except in ``pyproject.toml``, which Flower writes anew for each bundle: there,
    values count. Left out are the defaults of a run's settings, which a coordinator may change
    for every run, and Flower's manifest, which follows from the other files.
    """
    digest = hashlib.sha256()
    for path in sorted(files.keys() - {MANIFEST}):
        content = _project_values(files[path]) if path == PROJECT else files[path]
        for part in (path.encode(), content):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return f"sha256:{digest.hexdigest()}"


def _project_values(content: bytes) -> bytes:
    try:
        project: dict[str, Any] = tomllib.loads(content.decode())
        project.get("tool", {}).get("flwr", {}).get("app", {}).pop("config", None)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError, RecursionError):
        raise FedGTError(f"{PROJECT} in the bundle is not that of a Flower app") from None
    return json.dumps(project, sort_keys=True, default=str).encode()


def difference(files: Files, installed: Files) -> str:
    """Say in a few words how a bundle differs from the installed code, which it does."""
    if added := sorted(files.keys() - installed.keys()):
        return f"it has {shown(added[0])}, which is not part of the installed FedGT"
    if missing := sorted(installed.keys() - files.keys()):
        return f"it lacks {shown(missing[0])} of the installed FedGT"
    changed = [
        path
        for path in sorted(files.keys() - {MANIFEST, PROJECT})
        if files[path] != installed[path]
    ]
    return f"its {shown((changed or [PROJECT])[0])} is not that of the installed FedGT"


def shown(path: str) -> str:
    """Return a path that somebody else chose in a form that is safe in a log."""
    return ascii(path if len(path) <= _LONGEST_PATH else path[:_LONGEST_PATH] + "…")
