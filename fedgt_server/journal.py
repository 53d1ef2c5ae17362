"""What happened, as JSON lines: one for the start, each round, each warning, the end."""

import json
import math
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from typing import Any


class Journal:
    """Appends events to a file; what was written stays."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, event: str, **facts: Any) -> None:
        """Append an event with the time of day."""
        line = {"event": event, "time": datetime.now(UTC).isoformat(timespec="seconds"), **facts}
        # Unbuffered: what did not fit must not be written after all when the file is closed.
        with self.path.open("ab", buffering=0) as stream:
            # A line torn by a crash must not swallow this one.
            start = b"\n" if stream.tell() and not self._ends_whole() else b""
            text = json.dumps(_plain(line), ensure_ascii=False)
            _append(stream, start + text.encode() + b"\n")

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read() == b"\n"

    def start_anew(self) -> None:
        """Put an earlier run's journal of the same name aside."""
        if self.path.exists():
            self.path.replace(self.path.with_suffix(".previous.jsonl"))

    def read(self) -> Iterator[dict[str, Any]]:
        """All events so far; a line torn by a crash is passed over."""
        if not self.path.exists():
            return
        for line in self.path.read_bytes().split(b"\n"):
            try:
                yield json.loads(line)
            except ValueError:
                continue

    def rounds(self) -> list[dict[str, Any]]:
        """Round events in order; of a round that was run again after a resume, the last."""
        events = {event["round"]: event for event in self.read() if event["event"] == "round"}
        return [events[number] for number in sorted(events)]


def _append(stream: FileIO, line: bytes) -> None:
    """Write a whole line and have it on the disk, or leave the file as it was."""
    before = stream.tell()
    try:
        rest = memoryview(line)
        while rest:
            rest = rest[stream.write(rest) :]
        os.fsync(stream.fileno())
    except OSError:  # no room, most likely
        stream.truncate(before)
        raise


def _plain(value: Any) -> Any:
    """NaN has no place in JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value
