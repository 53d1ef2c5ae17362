"""A run in other processes, followed by its journal."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from fedgt_server.events import EndEvent, FailedEvent, RoundEvent, parse_event
from fedgt_server.round_loop import Observer

_POLL = 0.3  # seconds


class RunningJournal:
    """A run's journal, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = path.stat().st_size if path.exists() else 0  # a resumed run appends
        self.over = False
        self.failure: str | None = None

    def rounds(self) -> Iterator[RoundEvent]:
        """Rounds since the last call."""
        if not self._path.exists():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._read)
            whole, _, _ = stream.read().rpartition(b"\n")
        self._read += len(whole) + bool(whole)
        for line in whole.splitlines():
            event = parse_event(line)
            self.over |= isinstance(event, EndEvent | FailedEvent)
            if isinstance(event, FailedEvent):
                self.failure = event.reason
            if isinstance(event, RoundEvent):
                yield event


def follow(process: "subprocess.Popen[bytes]", journal: RunningJournal, observe: Observer) -> None:
    """Report rounds until the run is over; ``process`` takes some seconds more to notice."""
    while not journal.over:
        ended = process.poll() is not None  # asked first: what was written before is still read
        for event in journal.rounds():
            observe(event)
        if ended:
            break
        time.sleep(_POLL)
