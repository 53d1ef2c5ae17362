"""Approved bundles, unpacked where Python loads them from."""

import hashlib
import os
import stat
from collections.abc import Container
from pathlib import Path

from deploy.approval.content import Files, content_hash, read_bundle
from shared.errors import FedGTError
from shared.files import atomic_folder


def unpack_approved(bundle: bytes, approved: Container[str], home: Path) -> Path:
    """Return the folder in ``home`` that holds the files of a bundle, and nothing else.

    A folder that is there already is compared with the bundle, file by file.

    Raises
    ------
    FedGTError
        When the bundle is not approved, before anything of it is written.
    """
    files = read_bundle(bundle)
    if (found := content_hash(files)) not in approved:
        raise FedGTError(f"the code {found} is not approved here")
    _make_private(home)
    target = home / hashlib.sha256(bundle).hexdigest()
    if not _holds(target, files):
        with atomic_folder(target, force=True) as staging:
            for path, content in files.items():
                (staging / path).parent.mkdir(parents=True, exist_ok=True)
                (staging / path).write_bytes(content)
    return target


def _holds(folder: Path, files: Files) -> bool:
    """Tell whether a folder holds these files and no others, but for Python's own caches."""
    found = [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    if any(path.is_symlink() for path in (folder, *found)):
        return False
    there = {path.relative_to(folder).as_posix(): path for path in found if path.is_file()}
    return there.keys() == files.keys() and all(
        path.read_bytes() == files[name] for name, path in there.items()
    )


def _make_private(home: Path) -> None:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = home.lstat()
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.geteuid()
        or stat.S_IMODE(status.st_mode) & 0o022
    ):
        raise FedGTError(f"{home} is not a folder that this user alone can write: remove it")
