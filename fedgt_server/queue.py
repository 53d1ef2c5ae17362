"""One run at a time at a coordinator: institutions have one worker, which two runs would fight for.

The lock is the coordinator's, whatever folder its runs write to.
"""

import fcntl
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedgt_server.lock import is_locked
from shared.errors import FedGTError

logger = logging.getLogger(__name__)

_POLL = 1.0  # seconds
_AGAIN = 300.0  # seconds until the log says again that the run is waiting


@contextmanager
def turn(folder: Path, run: Path) -> Iterator[None]:
    """Wait until no other run is under way, and hold the next ones up during the block.

    Parameters
    ----------
    folder : of the coordinator
    run : the run's own folder

    Raises
    ------
    FedGTError
        When the run that is under way is this very one: it was started twice at the same time.
    """
    name = run.name
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "run.lock").open("a+") as stream:
        said = -_AGAIN
        while not _lock(stream.fileno()):
            if is_locked(run):
                raise FedGTError(
                    f"the run '{name}' is under way already: 'fedgt follow {name}' shows it"
                )
            if time.monotonic() - said >= _AGAIN:
                said = time.monotonic()
                stream.seek(0)
                other = stream.read().strip() or "another"
                logger.info("waiting: the run '%s' is under way, '%s' begins after it", other, name)
            time.sleep(_POLL)
        stream.truncate(0)
        stream.write(f"{name}\n")
        stream.flush()
        yield


def _lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def coordinator_folder() -> Path:
    """Return Flower's folder of this coordinator, which all its runs share."""
    return Path(os.environ.get("FLWR_HOME") or Path.home() / ".flwr")
