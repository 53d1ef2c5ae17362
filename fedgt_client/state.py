"""An institution's durable state, written atomically to its own disk."""

import json
import logging
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from shared.errors import FedGTError
from shared.files import Array, naming, open_tensors, write_tensors

logger = logging.getLogger(__name__)

# Rounds. A coordinator whose last checkpoint is truncated goes back to the one before, and asks for
# a round again when institutions have already finished the next.
KEPT = 3
# Prefixes of the names of arrays that only training needs.
OPTIMISER = "adam."
RESIDUAL = "residual."
MEASURED = "measured."  # of single nodes, too: it never leaves this folder


@dataclass(frozen=True)
class SavedRound:
    """A round's state on disk; the same round saved again is another one."""

    round_number: int
    saved_at: int  # nanoseconds


class BestModel(NamedTuple):
    """The model of the best round so far, on disk."""

    saved_at: int  # nanoseconds
    round_number: int
    path: Path


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
        self.root, self.federation, self.run = root, federation, run
        self.folder = root / federation / run / institution
        self._opened: set[int] = set()  # rounds whose files may be memory-mapped

    def save(self, round_number: int, tensors: dict[str, Array]) -> SavedRound:
        """Write the state after ``round_number`` and delete that of later rounds, if any."""
        rounds = self.rounds()
        # The last that was played by then, not that very round: it may have been missed.
        by_then = [kept for kept in rounds if kept <= round_number - KEPT + 1]
        oldest = max(by_then, default=0)
        before = [other for other in rounds if other < oldest]
        unused = [self._path(other) for other in before if other not in self._opened]
        write_tensors(self._path(round_number), tensors, over=unused[-1] if unused else None)
        for other in before + [other for other in rounds if other > round_number]:
            self._path(other).unlink(missing_ok=True)
        kept = self.best()
        if kept and kept.round_number >= round_number:
            # The round is played again, or by another run of the same name.
            kept.path.unlink(missing_ok=True)
        return self._saved(round_number)

    def rounds(self) -> list[int]:
        """List the rounds whose state is here, oldest first."""
        matches = (
            re.fullmatch(r"round-(\d+)\.safetensors", path.name)
            for path in (self.folder.iterdir() if self.folder.exists() else ())
        )
        return sorted(int(match[1]) for match in matches if match)

    def newest_before(
        self, round_number: int, known: SavedRound | None = None
    ) -> SavedRound | None:
        """Return the last round before ``round_number`` whose state is here and can be read.

        A power cut may have truncated the last one; ``known`` was whole when it was written or
        read.
        """
        for kept in reversed(self.rounds()):
            if kept < round_number:
                try:
                    if known and known == self._saved(kept):
                        return known
                    self.load(kept)
                    return self._saved(kept)
                except (FedGTError, OSError) as error:
                    logger.warning("skipping the state of round %d: %s", kept, error)
        return None

    def load(self, round_number: int) -> dict[str, Array]:
        """Return the state after ``round_number``, memory-mapped."""
        self._opened.add(round_number)
        return open_tensors(self._path(round_number))

    def keep_best(self, round_number: int) -> None:
        """Copy the model after ``round_number`` to the best model, if its state is still here.

        What only training needs is left out.
        """
        kept = self.best()
        if round_number not in self.rounds() or (kept and kept.round_number == round_number):
            return
        model = {
            name: array
            for name, array in open_tensors(self._path(round_number)).items()
            if not name.startswith((OPTIMISER, RESIDUAL, MEASURED))
        }
        write_tensors(self.folder / f"best-{round_number:06d}.safetensors", model)
        if kept:
            kept.path.unlink(missing_ok=True)

    def keep_if_best(self, round_number: int, metric: str, *, smaller: bool = False) -> None:
        """Keep the model after ``round_number`` if none had a better logged ``metric`` so far.

        Of equal ones the last, which has learned longer: few validation nodes often tell no
        difference. Without a measurement the last round counts as the best.
        """
        kept, sign = self.best(), -1.0 if smaller else 1.0
        before = self.metrics_of(kept.round_number).get(metric) if kept else None
        now = self.metrics_of(round_number).get(metric)
        if before is None or (now is not None and sign * now >= sign * before):
            self.keep_best(round_number)

    def load_best(self) -> dict[str, Array] | None:
        """Return the best personalised model, None before the first."""
        kept = self.best()
        return open_tensors(kept.path) if kept else None

    def best(self) -> "BestModel | None":
        """Return where the best personalised model is, None before the first."""
        found = []
        for path in self.folder.glob("best-*.safetensors"):
            # There are two between writing one and deleting the other, and then one less.
            with suppress(FileNotFoundError):
                number = int(path.stem.removeprefix("best-"))
                found.append(BestModel(path.stat().st_mtime_ns, number, path))
        return max(found, default=None)

    def log_metrics(self, round_number: int, metrics: Mapping[str, float]) -> None:
        """Append a round's metrics to the institution's own log, ``metrics.jsonl``."""
        line = json.dumps({"round": round_number, **metrics})
        path = self.folder / "metrics.jsonl"
        with naming(path), path.open("a") as stream:
            stream.write(line + "\n")

    def first_round(self) -> int:
        """Return the first round that was logged; 0 where none was."""
        path = self.folder / "metrics.jsonl"
        if path.exists():
            with path.open("rb") as stream, suppress(ValueError, TypeError, KeyError):
                return int(json.loads(stream.readline())["round"])
        return 0

    def metrics_of(self, round_number: int) -> dict[str, float]:
        """Return a round's metrics as they were logged last; empty where they were not."""
        path = self.folder / "metrics.jsonl"
        found: dict[str, float] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            with suppress(ValueError, RecursionError):  # of a torn line
                metrics = json.loads(line)
                if isinstance(metrics, dict) and metrics.pop("round", None) == round_number:
                    found = metrics
        return found

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

    def newest_before(
        self, round_number: int, known: SavedRound | None = None
    ) -> SavedRound | None:
        """Return the last round; a round cannot be repeated."""
        if self._last and self._last.round_number >= round_number:
            raise FedGTError(f"round {round_number} cannot be played again: checkpoints is off")
        return self._last

    def keep_best(self, round_number: int) -> None:
        """Keep nothing."""

    def keep_if_best(self, round_number: int, metric: str, *, smaller: bool = False) -> None:
        """Keep nothing."""

    def log_metrics(self, round_number: int, metrics: Mapping[str, float]) -> None:
        """Write nothing."""
