"""The supernode that this institution's processes belong to, and must not outlive.

``flower-supernode`` starts ``flower-superexec``, which starts a process for each message; with
process isolation the second runs alone, in a container of its own. Flower tells each process which
one started it by ``--parent-pid``.
"""

import os
import sys
from collections.abc import Sequence
from itertools import pairwise

import psutil

_PARENT = "--parent-pid"


class Supernode:
    """Flower's processes at this institution, as they were when this object was made."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.pids = list(pids)
        self._processes = [_process(pid) for pid in pids]

    @classmethod
    def of_this_process(cls) -> "Supernode":
        """Find who started this process, and who started that one."""
        executor = _parent_argument(sys.argv) or os.getppid()
        try:
            supernode = _parent_argument(psutil.Process(executor).cmdline())
        except psutil.Error:
            supernode = None
        return cls([executor, *([supernode] if supernode else [])])

    def is_gone(self) -> bool:
        """Return whether one of the processes has ended."""
        return any(process is None or _has_ended(process) for process in self._processes)


def _parent_argument(arguments: Sequence[str]) -> int | None:
    for name, value in pairwise(arguments):
        if name == _PARENT and value.isdecimal():
            return int(value)
    return None


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except psutil.NoSuchProcess:
        return None


def _has_ended(process: psutil.Process) -> bool:
    try:
        # A process whose parent does not wait for it stays as a zombie.
        return not process.is_running() or bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
