"""Processes that a command starts, directly or through others, and ends with itself.

Flower and Ray start processes that outlive the one that asked for them. All of them inherit the
environment, so a mark in it finds them again, and only them.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from uuid import uuid4

import psutil

_MARK = "FEDGT_PROCESSES"
_ROUNDS = 10  # of looking for processes that were just being started
_TIMEOUT = 3.0  # seconds for the killed to be gone
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class ProcessMark:
    """Marks an environment, and finds and ends the processes started with it."""

    def __init__(self, variable: str = _MARK) -> None:
        self._variable = variable
        self.value = uuid4().hex

    def environment(self) -> dict[str, str]:
        """Return the variable that marks the environment of a process to start."""
        return {self._variable: self.value}

    def processes(self) -> list[psutil.Process]:
        """Return the marked processes and all their descendants.

        Descendants count whatever their environment says: Ray's workers overwrite it with a title.
        """
        found: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            if process.pid == os.getpid() or process.pid in found or not self._is_marked(process):
                continue
            found[process.pid] = process
            try:
                found |= {child.pid: child for child in process.children(recursive=True)}
            except psutil.NoSuchProcess:
                continue
        return [process for process in found.values() if not _is_gone(process)]

    def end(self) -> None:
        """Kill them all, until none is left."""
        for _ in range(_ROUNDS):
            family = self.processes()
            if not family:
                return
            for process in family:
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
            psutil.wait_procs(family, timeout=_TIMEOUT)

    def _is_marked(self, process: psutil.Process) -> bool:
        try:
            return bool(process.environ().get(self._variable) == self.value)
        except (psutil.Error, OSError):  # gone meanwhile, or somebody else's
            return False


def _is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@contextmanager
def marked_processes() -> Iterator[ProcessMark]:
    """Yield a mark; however the block ends, no process with it is left.

    Also when this process is asked to end (SIGTERM, SIGHUP), which by itself would skip the
    cleaning up.
    """
    mark = ProcessMark()
    with _signals(dict.fromkeys(_ENDING, _exit_on_signal)):
        try:
            yield mark
        finally:
            # A second Ctrl-C, or whatever else, must not interrupt the cleaning up.
            with _signals(dict.fromkeys((signal.SIGINT, *_ENDING), signal.SIG_IGN)):
                mark.end()


def _exit_on_signal(number: int, _: FrameType | None) -> None:
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)  # once is enough
    raise SystemExit(128 + number)


@contextmanager
def _signals(handlers: "dict[signal.Signals, signal._HANDLER]") -> Iterator[None]:
    """Handle signals so for the time of the block; Python allows it in the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
