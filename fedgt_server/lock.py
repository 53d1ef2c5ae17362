"""One coordinator to a run: two would write over each other's checkpoints."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.errors import FedGTError


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold a run's folder for the time of the block.

    The operating system lets go of it with the process, however that ends.

    Raises
    ------
    FedGTError
        When another process holds it.
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
        yield


def is_locked(folder: Path) -> bool:
    """Whether a process works on the run; asked without writing anything."""
    try:
        with (folder / "lock").open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
