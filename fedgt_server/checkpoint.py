"""The coordinator's memory on disk: a pair of files a round, the last good one is used."""

import json
import logging
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.errors import FedGTError
from shared.files import open_tensors, write_json, write_tensors
from shared.wire import Arrays

logger = logging.getLogger(__name__)

_KEPT = 2  # one may be torn by a full disk or a crash


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on after ``round_number``."""

    round_number: int
    facts: dict[str, Any]  # configuration, best round, agreed profile
    arrays: Arrays


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, then drop those no longer needed.

        The JSON half goes last and holds a checksum of the other: a pair is whole or not there.
        """
        arrays, facts = self._paths(checkpoint.round_number)
        write_tensors(arrays, checkpoint.arrays, durable=True)
        document = {
            "round": checkpoint.round_number,
            "checksum": _checksum(arrays),
            "facts": checkpoint.facts,
        }
        try:
            write_json(facts, document, durable=True)
        except OSError:
            arrays.unlink(missing_ok=True)
            raise
        for old in self.rounds()[:-_KEPT]:
            for path in self._paths(old):
                path.unlink(missing_ok=True)

    def start_anew(self) -> None:
        """Drop the checkpoints of an earlier run of the same name."""
        for old in self.rounds():
            for path in self._paths(old):
                path.unlink(missing_ok=True)

    def rounds(self) -> list[int]:
        """Rounds with a checkpoint, oldest first."""
        matches = (
            re.fullmatch(r"round-(\d+)\.json", path.name)
            for path in (self.folder.iterdir() if self.folder.exists() else ())
        )
        return sorted(int(match[1]) for match in matches if match)

    def newest(self) -> Checkpoint | None:
        """The last checkpoint that is whole; None where there is none."""
        for number in reversed(self.rounds()):
            arrays, facts = self._paths(number)
            try:
                document = json.loads(facts.read_text())
                if _checksum(arrays) != document["checksum"]:
                    raise FedGTError(f"{arrays} does not match its checksum")
                return Checkpoint(number, document["facts"], open_tensors(arrays))
            except (OSError, ValueError, KeyError, TypeError, FedGTError) as error:
                logger.warning("checkpoint of round %d is passed over: %s", number, error)
        return None

    def _paths(self, round_number: int) -> tuple[Path, Path]:
        stem = self.folder / f"round-{round_number:06d}"
        return stem.with_suffix(".safetensors"), stem.with_suffix(".json")


def _checksum(path: Path) -> int:
    return zlib.crc32(path.read_bytes())
