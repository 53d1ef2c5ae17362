"""The journal of a run: JSON lines, one for each event."""

import json
import math
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from pydantic import JsonValue

from fedgt_server.events import Event, JournalEvent, RoundEvent, parse_event
from shared.files import naming


class Journal:
    """Appends events to a file; what was written stays."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: Event) -> None:
        """Append an event."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Unbuffered: what did not fit must not be written after all when the file is closed.
        with naming(self.path), self.path.open("ab", buffering=0) as stream:
            # Keep this line apart from one that a crash has torn.
            start = b"\n" if stream.tell() and not self._ends_with_newline() else b""
            text = json.dumps(_without_nan(event.to_json()), ensure_ascii=False)
            _append(stream, start + text.encode() + b"\n")

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read() == b"\n"

    def start_new(self) -> None:
        """Rename the journal of an earlier run of the same name."""
        if self.path.exists():
            self.path.replace(self.path.with_suffix(".previous.jsonl"))

    def read(self) -> Iterator[JournalEvent]:
        """Yield all events so far; a line that cannot be parsed is skipped."""
        if not self.path.exists():
            return
        for line in self.path.read_bytes().split(b"\n"):
            if event := parse_event(line):
                yield event

    def last(self) -> JournalEvent | None:
        """Return the last event; None where there is none."""
        return next(reversed(list(self.read())), None)

    def rounds(self) -> list[RoundEvent]:
        """Return the rounds in order; of a round that was run again after a resume, the last."""
        events = {event.round: event for event in self.read() if isinstance(event, RoundEvent)}
        return [events[number] for number in sorted(events)]


def _append(stream: FileIO, line: bytes) -> None:
    """Write a whole line through to the disk, or leave the file as it was."""
    before = stream.tell()
    try:
        rest = memoryview(line)
        while rest:
            rest = rest[stream.write(rest) :]
        os.fsync(stream.fileno())
    except OSError:  # no room, most likely
        stream.truncate(before)
        raise


def _without_nan(value: JsonValue) -> JsonValue:
    """Replace numbers that JSON cannot express by null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return value
