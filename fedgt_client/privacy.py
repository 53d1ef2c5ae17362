"""Local differential privacy, section 4.3: M(g) = clip(g, δ) + Laplace(0, λ)."""

import math
import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
        """``values`` as they may leave the institution, same shape.

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
    """What has been spent, honestly composed."""

    per_coordinate: float  # ε of one coordinate in one upload
    coordinates: int  # released in one upload
    uploads: int

    def coordinate_total(self, slack: float = 1e-5) -> float:
        """ε of one coordinate over all uploads.

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
