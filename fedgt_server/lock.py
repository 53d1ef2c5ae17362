"""A lock on a run's folder: two coordinators would overwrite each other's checkpoints.

By ``fcntl`` and not by ``filelock``: that opens the lock file for writing, also to ask whether it
is locked, and the container that resumes a run has the folder mounted read-only.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import FedGTError


@contextmanager
def run_lock(folder: Path) -> Iterator[Callable[[], bool]]:
    """Lock a run's folder during the block; yield a function that tells whether it is still there.

    The operating system frees the lock when the process ends, however it ends.

    Raises
    ------
    FedGTError
        When another process has locked it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("ab") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FedGTError(
                f"the run '{folder.name}' is still running: stop that first, or take another "
                "run-name"
            ) from None

        def is_in_place() -> bool:
            try:
                return os.path.samestat(os.fstat(stream.fileno()), (folder / "lock").stat())
            except OSError:
                return False

        yield is_in_place


def is_locked(folder: Path) -> bool:
    """Return whether a process is running the run, without creating or writing a file."""
    try:
        with (folder / "lock").open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
