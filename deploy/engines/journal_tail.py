"""Follow a run in other processes by its journal."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from fedgt_server.events import EndEvent, FailedEvent, RoundEvent, parse_event
from fedgt_server.round_loop import Observer

_POLL = 0.3  # seconds


class JournalTail:
    """A run's journal, read while another process appends to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = path.stat().st_size if path.exists() else 0  # a resumed run appends
        self.ended = False
        self.failure: str | None = None

    def rounds(self) -> Iterator[RoundEvent]:
        """Yield the rounds written since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._read)
            whole, _, _ = stream.read().rpartition(b"\n")
        self._read += len(whole) + bool(whole)
        for line in whole.splitlines():
            event = parse_event(line)
            self.ended |= isinstance(event, EndEvent | FailedEvent)
            if isinstance(event, FailedEvent):
                self.failure = event.reason
            if isinstance(event, RoundEvent):
                yield event


def follow_run(process: "subprocess.Popen[bytes]", journal: JournalTail, observe: Observer) -> None:
    """Report rounds until the run ends; ``process`` exits some seconds later."""
    while not journal.ended:
        exited = process.poll() is not None  # before reading, so that the last lines are read
        for event in journal.rounds():
            observe(event)
        if exited:
            break
        time.sleep(_POLL)
