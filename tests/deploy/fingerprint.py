"""A few numbers that tell one finished run from another."""

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path

import numpy as np

from shared.files import Array, open_tensors


@dataclass(frozen=True)
class Fingerprint:
    """What a run ended with."""

    train_losses: tuple[float, ...]  # of each institution in the last round
    model_norms: tuple[float, ...]  # of each institution's weights after the last round
    coordinator_norm: float  # of all floats in the coordinator's last checkpoint

    def values(self) -> list[float]:
        """Return all numbers in a fixed order."""
        losses, norms, coordinator = astuple(self)
        return [*losses, *norms, coordinator]

    def distance(self, other: "Fingerprint") -> float:
        """Return the largest relative difference of any number."""
        pairs = zip(self.values(), other.values(), strict=True)
        return max(abs(a - b) / max(abs(a), abs(b), 1e-9) for a, b in pairs)


def fingerprint(out: Path) -> Fingerprint:
    """Read the fingerprint of the run in ``out``."""
    events = [json.loads(line) for line in (out / "journal.jsonl").open()]
    last = [event for event in events if event["event"] == "round"][-1]
    name = f"round-{last['round']:06d}.safetensors"
    states = [open_tensors(path) for path in sorted((out / "institutions").rglob(name))]
    institutions = last["institutions"]
    return Fingerprint(
        tuple(institutions[key]["train_loss"] for key in sorted(institutions)),
        tuple(
            _norm(array for key, array in state.items() if key.startswith("model."))
            for state in states
        ),
        _norm(open_tensors(out / "checkpoints" / name).values()),
    )


def _norm(arrays: Iterable[Array]) -> float:
    floats = (array for array in arrays if array.dtype == np.float32)
    return float(np.sqrt(sum(np.square(array, dtype=np.float64).sum() for array in floats)))
