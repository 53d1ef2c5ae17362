"""Writing a kit: whole files or none, keys private and never replaced."""

import os
import tempfile
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
    """Write a private key with mode 0600; one that is there is never replaced."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # mkstemp makes it 0600 from the first byte on.
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # Unlike a rename, a link fails where something is already.
        os.link(name, target)
    except FileExistsError:
        raise FedGTError(f"{target} exists already: keys are never replaced") from None
    finally:
        Path(name).unlink()


def write_file(target: Path, content: bytes, *, executable: bool = False) -> bool:
    """Bring a file to ``content``; whether that changed anything."""
    if target.is_file() and target.read_bytes() == content:
        return False
    with atomic_file(target, mode=0o777 if executable else 0o666) as staging:
        staging.write_bytes(content)
    return True
