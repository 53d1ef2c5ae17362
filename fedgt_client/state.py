"""An institution's durable state, written atomically to its own disk."""

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from shared.errors import FedGTError
from shared.files import Array, open_tensors, write_tensors

logger = logging.getLogger(__name__)

# Rounds. A coordinator whose last checkpoint is truncated goes back to the one before, and asks for
# a round again when institutions have already finished the next.
_KEPT = 3
# Prefixes of the names of arrays that only training needs.
OPTIMISER = "adam."
RESIDUAL = "residual."


@dataclass(frozen=True)
class SavedRound:
    """A round's state on disk; the same round saved again is another one."""

    round_number: int
    saved_at: int  # nanoseconds


def check_folder_name(name: str) -> None:
    """Refuse the name of an institution, run or federation that cannot name a folder."""
    if not re.fullmatch(r"[\w.-]+", name) or name.startswith("."):
        raise FedGTError(f"'{name}' cannot name a folder: use letters, digits, '-', '_' and '.'")


class StateStore:
    """What a method needs from round to round, one file for each of the last rounds."""

    writes: ClassVar[bool] = True  # whether ``save`` reads the tensors it is given

    def __init__(self, root: Path, federation: str, run: str, institution: str) -> None:
        for name in (federation, run, institution):
            check_folder_name(name)
        self.folder = root / federation / run / institution

    def save(self, round_number: int, tensors: dict[str, Array]) -> SavedRound:
        """Write the state after ``round_number`` and delete that of later rounds, if any."""
        write_tensors(self._path(round_number), tensors)
        # The last that was played by then, not that very round: it may have been missed.
        by_then = [kept for kept in self.rounds() if kept <= round_number - _KEPT + 1]
        oldest = max(by_then, default=0)
        for other in self.rounds():
            if other > round_number or other < oldest:
                self._path(other).unlink(missing_ok=True)
        return self._saved(round_number)

    def rounds(self) -> list[int]:
        """List the rounds whose state is here, oldest first."""
        matches = (
            re.fullmatch(r"round-(\d+)\.safetensors", path.name)
            for path in (self.folder.iterdir() if self.folder.exists() else ())
        )
        return sorted(int(match[1]) for match in matches if match)

    def newest_before(self, round_number: int) -> SavedRound | None:
        """Return the last round before ``round_number`` whose state is here and can be read.

        A power cut may have truncated the last one.
        """
        for kept in reversed(self.rounds()):
            if kept < round_number:
                try:
                    self.load(kept)
                    return self._saved(kept)
                except (FedGTError, OSError) as error:
                    logger.warning("skipping the state of round %d: %s", kept, error)
        return None

    def load(self, round_number: int) -> dict[str, Array]:
        """Return the state after ``round_number``, memory-mapped."""
        return open_tensors(self._path(round_number))

    def keep_best(self, round_number: int) -> None:
        """Copy the model after ``round_number`` to the best model, if its state is still here.

        What only training needs is left out.
        """
        kept = self._best()
        if round_number not in self.rounds() or (kept and kept.name == _best_name(round_number)):
            return
        model = {
            name: array
            for name, array in self.load(round_number).items()
            if not name.startswith((OPTIMISER, RESIDUAL))
        }
        write_tensors(self.folder / _best_name(round_number), model)
        if kept:
            kept.unlink()

    def load_best(self) -> dict[str, Array] | None:
        """Return the best personalised model, None before the first."""
        kept = self._best()
        return open_tensors(kept) if kept else None

    def _best(self) -> Path | None:
        # There are two between writing one and deleting the other.
        found = self.folder.glob("best-*.safetensors")
        return max(found, key=lambda path: path.stat().st_mtime_ns, default=None)

    def _saved(self, round_number: int) -> SavedRound:
        return SavedRound(round_number, self._path(round_number).stat().st_mtime_ns)

    def _path(self, round_number: int) -> Path:
        return self.folder / f"round-{round_number:06d}.safetensors"


class InMemoryState(StateStore):
    """For a run in one process that nobody will resume: nothing is written to disk."""

    writes: ClassVar[bool] = False
    _last: SavedRound | None = None

    def save(self, round_number: int, tensors: dict[str, Array]) -> SavedRound:
        """Note the round; the client itself holds the state."""
        self._last = SavedRound(round_number, 0)
        return self._last

    def newest_before(self, round_number: int) -> SavedRound | None:
        """Return the last round; a round cannot be repeated."""
        if self._last and self._last.round_number >= round_number:
            raise FedGTError(f"round {round_number} cannot be played again: checkpoints is off")
        return self._last

    def keep_best(self, round_number: int) -> None:
        """Keep nothing."""


def _best_name(round_number: int) -> str:
    return f"best-{round_number:06d}.safetensors"
