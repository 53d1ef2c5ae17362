"""A lock file for each job, so that several schedulers can share a results folder.

With ``fcntl`` and not ``filelock``: the process of a run inherits the descriptor, and so the lock
lasts as long as the run, whatever becomes of the scheduler.
"""

import fcntl
import os
from pathlib import Path

from experiments.job import Job

_FOLDER = ".locks"


class JobLock:
    """A lock that we hold; a process that inherits ``handle`` holds it too."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self.handle = handle

    @classmethod
    def acquire(cls, results: Path, job: Job) -> "JobLock | None":
        """Lock ``job``; return None if another scheduler holds it."""
        path = results / _FOLDER / (job.name.replace("/", "_") + ".lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return None
            except BaseException:
                os.close(handle)
                raise
            if _is_at(path, handle):
                return cls(path, handle)
            # Its holder deleted the file between our opening and locking it.
            os.close(handle)

    def release(self) -> None:
        """Delete the lock file while we still hold the lock."""
        self._path.unlink(missing_ok=True)
        os.close(self.handle)


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
