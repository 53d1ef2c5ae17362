"""Write the files of a kit: whole or not at all, keys private and never replaced."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from shared.errors import FedGTError
from shared.files import atomic_file

PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner enters."""
    folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    folder.chmod(PRIVATE_FOLDER)


def write_secret(target: Path, content: bytes) -> None:
    """Write a private key with mode 0600; an existing one is never replaced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp makes it 0600 from the first byte on.
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # Unlike a rename, a link fails where the target exists.
        os.link(name, target)
    except FileExistsError:
        raise FedGTError(f"{target} exists already: keys are never replaced") from None
    finally:
        Path(name).unlink()


def write_file(target: Path, content: bytes, *, executable: bool = False) -> bool:
    """Write ``content`` to a file; return whether that changed anything."""
    if target.is_file() and target.read_bytes() == content:
        return False
    with atomic_file(target, mode=0o777 if executable else 0o666) as staging:
        staging.write_bytes(content)
    return True


@dataclass
class KitWriter:
    """Writes files, and records which ones and what the operator should know."""

    written: list[Path]
    notes: list[str]

    def write(self, target: Path, content: bytes, *, executable: bool = False) -> None:
        """Write a file that is ours to replace."""
        if write_file(target, content, executable=executable):
            self.written.append(target)

    def write_key(self, target: Path, content: bytes) -> None:
        """Write a new private key."""
        write_secret(target, content)
        self.written.append(target)

    def write_key_once(self, target: Path, make: Callable[[], bytes]) -> None:
        """Write a new secret, unless there is one."""
        if not target.exists():
            self.write_key(target, make())

    def write_once(self, target: Path, content: bytes) -> None:
        """Write a file that people edit, unless it exists."""
        if not target.exists():
            self.write(target, content)
        elif target.read_bytes() != content:
            self.notes.append(f"{target} was edited, or is older, and stays as it is")
