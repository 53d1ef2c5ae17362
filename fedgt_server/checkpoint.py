"""The coordinator's state on disk: a pair of files a round, of which the last good one is used."""

import logging
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

from fedgt_server.offences import Conduct
from shared.config import Scalar
from shared.errors import FedGTError
from shared.files import open_tensors, write_json, write_tensors
from shared.wire import Arrays, Profile

logger = logging.getLogger(__name__)

# One may be torn by a full disk or a crash, while the next is written over the oldest; that of the
# best round stays beside them.
_KEPT = 3


class Standing(NamedTuple):
    """An institution's part in the rounds so far."""

    rounds: int  # that it took part in
    round_number: int  # the last of them
    value: float | None  # of ``select-by`` that it measured then


class BestRound(NamedTuple):
    """The round of the best mean of ``select-by`` on validation nodes so far."""

    number: int
    selection: float | None  # that mean; None: nobody has validation nodes
    institutions: tuple[str, ...]  # those that answered in it
    standings: dict[str, Standing] = {}  # noqa: RUF012 (of all institutions by then)


class LastPart(NamedTuple):
    """What an institution's last accepted update left behind."""

    round_number: int
    epsilon: float | None  # that it has spent by its own account; None: without noise


class CheckpointFacts(BaseModel):
    """What a checkpoint holds besides arrays."""

    config: dict[str, Scalar]
    best: BestRound | None
    profile: Profile | None  # what institutions agreed on
    run_token: str = ""  # tells the run from others of its name
    last_parts: dict[str, LastPart] = {}  # by institution
    conducts: dict[str, Conduct] = {}  # by institution
    standings: dict[str, Standing] = {}  # by institution


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to continue after ``round_number``."""

    round_number: int
    facts: CheckpointFacts
    arrays: Arrays


class _Document(BaseModel):
    """The JSON half of a checkpoint."""

    round: int
    checksum: int  # of the file of arrays
    facts: CheckpointFacts


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened = 0  # the round whose arrays may be memory-mapped

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint in the place of those no longer needed.

        The JSON half goes last and holds a checksum of the other: a pair is whole or not there.
        """
        number = checkpoint.round_number
        arrays, facts = self._paths(number)
        best = checkpoint.facts.best.number if checkpoint.facts.best else 0
        earlier = [old for old in self.rounds() if old != number]
        unused = [old for old in earlier[: 1 - _KEPT] if old != best]
        over = [old for old in unused if old != self._opened][-1:]
        for old in over:  # first: without it the pair is not there
            self._paths(old)[1].unlink(missing_ok=True)
        place = self._paths(over[0])[0] if over else None
        write_tensors(arrays, checkpoint.arrays, durable=True, over=place)
        document = _Document(round=number, checksum=_checksum(arrays), facts=checkpoint.facts)
        try:
            write_json(facts, document.model_dump(), indent=None, durable=True)
        except OSError:
            arrays.unlink(missing_ok=True)
            raise
        self._delete(unused)

    def delete_all(self) -> None:
        """Delete the checkpoints of an earlier run of the same name."""
        self._delete(self.rounds())

    def rounds(self) -> list[int]:
        """Return the rounds with a checkpoint, oldest first."""
        matches = (
            re.fullmatch(r"round-(\d+)\.json", path.name)
            for path in (self.folder.iterdir() if self.folder.exists() else ())
        )
        return sorted(int(match[1]) for match in matches if match)

    def newest(self) -> Checkpoint | None:
        """Return the last checkpoint that is whole; None where there is none."""
        for number in reversed(self.rounds()):
            arrays, facts = self._paths(number)
            try:
                document = _Document.model_validate_json(facts.read_bytes())
                if _checksum(arrays) != document.checksum:
                    raise FedGTError(f"{arrays} does not match its checksum")
                self._opened = number
                return Checkpoint(number, document.facts, open_tensors(arrays))
            except (OSError, ValueError, FedGTError) as error:
                logger.warning("skipping the checkpoint of round %d: %s", number, error)
        return None

    def _delete(self, rounds: list[int]) -> None:
        for number in rounds:
            for path in self._paths(number):
                path.unlink(missing_ok=True)

    def _paths(self, round_number: int) -> tuple[Path, Path]:
        stem = self.folder / f"round-{round_number:06d}"
        return stem.with_suffix(".safetensors"), stem.with_suffix(".json")


def _checksum(path: Path) -> int:
    checksum = 0
    with path.open("rb") as stream:
        while part := stream.read(2**24):
            checksum = zlib.crc32(part, checksum)
    return checksum
