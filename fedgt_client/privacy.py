"""Local differential privacy, section 4.3: M(g) = clip(g, δ) + Laplace(0, λ)."""

import json
import math
import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from shared.files import write_json

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class LaplaceMechanism:
    """Clips each coordinate to [−δ, δ] and adds Laplace noise of strength λ.

    Coordinates are counted in ``scale``, which must be public and fixed before the data is seen:
    ε depends only on the ratio δ / λ, so the scale costs no privacy, while clipping values of
    magnitude 1 at δ = 0.002 would leave only their signs.
    """

    clip: float  # δ
    noise: float  # λ
    seed: int  # -1: from the operating system's entropy

    @property
    def epsilon(self) -> float:
        """The budget of one coordinate in one upload, ε = 2δ / λ."""
        return 2.0 * self.clip / self.noise

    @property
    def private(self) -> bool:
        """Whether nobody can draw the same noise again."""
        return self.seed < 0

    def release(self, values: Floats, *, scale: float = 1.0, draw: tuple[int, ...]) -> Floats:
        """Return ``values`` clipped and noised, same shape.

        ``draw`` names this draw among those of a seeded run; without a seed it has no effect.
        """
        rng = np.random.default_rng(
            [self.seed, *draw] if not self.private else secrets.randbits(256)
        )
        clipped = np.clip(values / scale, -self.clip, self.clip)
        noisy = clipped + rng.laplace(0.0, self.noise, values.shape)
        return np.asarray(noisy * scale, dtype=np.float32)


@dataclass(frozen=True)
class Budget:
    """What a number of uploads spends, by composition theorems."""

    per_coordinate: float  # ε of one coordinate in one upload
    coordinates: int  # released in one upload
    uploads: int

    def coordinate_total(self, slack: float = 1e-5) -> float:
        """Return ε of one coordinate over all uploads.

        The smaller of basic composition, k ε, and advanced composition (Dwork, Rothblum, Vadhan
        2010, theorem III.3), ε √(2k ln(1/δ')) + k ε (e^ε − 1), which holds up to a probability
        δ' = ``slack`` and wins only for small ε.
        """
        k, epsilon = self.uploads, self.per_coordinate
        basic = k * epsilon
        if epsilon > 1.0:
            return basic
        advanced = epsilon * math.sqrt(2 * k * math.log(1 / slack)) + k * epsilon * (
            math.exp(epsilon) - 1
        )
        return min(basic, advanced)

    @property
    def total(self) -> float:
        """ε of everything released, by basic composition over coordinates and uploads."""
        return self.per_coordinate * self.coordinates * self.uploads


@dataclass(frozen=True)
class Release:
    """What one upload discloses."""

    epsilon: float  # of each coordinate
    coordinates: int
    private: bool


class Ledger:
    """Counts uploads on disk; a repeated round counts again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, release: Release) -> dict[str, float]:
        """Count an upload before it is sent; return what has been spent with it."""
        uploads = 1 + (json.loads(self._path.read_text())["uploads"] if self._path.exists() else 0)
        budget = Budget(release.epsilon, release.coordinates, uploads)
        spent = {
            "epsilon_coordinate": budget.per_coordinate,
            "epsilon_coordinate_total": budget.coordinate_total(),
            "epsilon_total": budget.total,
            "epsilon_private": float(release.private),
        }
        write_json(self._path, {"uploads": uploads, **spent})
        return spent
