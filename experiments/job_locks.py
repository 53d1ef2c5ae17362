"""Who does which job: a lock file for each, so that several schedulers share a results folder."""

import fcntl
import os
from pathlib import Path

from experiments.job import Job

_FOLDER = ".claims"


class Claim:
    """A job that is ours; a process that inherits ``handle`` holds it too."""

    def __init__(self, path: Path, handle: int) -> None:
        self._path = path
        self.handle = handle

    @classmethod
    def take(cls, results: Path, job: Job) -> "Claim | None":
        """Claim ``job``; None where another scheduler has it."""
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
            # Its holder dropped the file between our opening and locking it.
            os.close(handle)

    def release(self) -> None:
        """Drop the lock file while it is still ours."""
        self._path.unlink(missing_ok=True)
        os.close(self.handle)


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
