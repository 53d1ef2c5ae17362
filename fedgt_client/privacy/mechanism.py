"""Local differential privacy, section 4.3: clip what is uploaded, add noise.

The noise is that of ``discrete_noise``, on a grid: values are rounded to it before the noise comes,
and what leaves is a function of the integers after it alone. Scaling these to floats, and rounding
them for the wire to half precision or 8 bits, is post-processing: it costs no privacy (Dwork and
Roth 2014, proposition 2.1).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedgt_client.privacy.discrete_noise import Integers, discrete_gaussian, discrete_laplace
from fedgt_client.privacy.random_bits import RandomBits
from fedgt_client.privacy.release import Part
from shared.config import LARGEST_CLIP_RATIO

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Norm = Literal["coordinate", "l1", "l2"]

# Steps of the grid in one unit of the noise, as a power of two: rounding to a millionth of the
# noise changes nothing that can be measured.
_GRID_BITS = 20


@dataclass(frozen=True)
class NoiseMechanism:
    """Clips an upload and adds noise to each of its values.

    Two uploads, whatever the data, cannot be told apart better than ``part`` says:

    - ``coordinate``: M(g) = clip(g, δ) + Laplace(0, λ) value by value, as in the paper. ε = 2δ / λ
      is of one value, if all others are known already (Dwork et al. 2006, theorem 1).
    - ``l1``: the whole upload is scaled to an L1 norm of at most δ; Laplace noise. ε = 2δ / λ is of
      the whole upload (the same theorem).
    - ``l2``: the whole upload is scaled to an L2 norm of at most δ; Gaussian noise of deviation λ.
      ε is of the whole upload, up to a small probability (Balle and Wang 2018, theorem 8; that the
      discrete Gaussian is no worse in Rényi divergence: Canonne et al. 2020, theorem 4).

    Values are counted in scales that must be public and fixed before the data is seen: ε depends
    only on the ratio δ / λ, so a scale costs no privacy, while clipping values of magnitude 1 at
    δ = 0.002 would leave only their signs.
    """

    norm: Norm
    clip: float  # δ
    noise: float  # λ
    seed: int  # -1: a key from the operating system

    def __post_init__(self) -> None:
        # Integers of the grid would overflow.
        if not 0 < self.clip <= LARGEST_CLIP_RATIO * self.noise:
            raise ValueError(f"clip is {self.clip}, noise {self.noise}: too little noise")

    @property
    def private(self) -> bool:
        """Whether nobody can draw the same noise again."""
        return self.seed < 0

    def part(self, upload: Mapping[str, Floats]) -> Part:
        """Return what the ledger keeps of a release of these arrays."""
        return Part(
            arrays=tuple(sorted(upload)),
            coordinates=sum(array.size for array in upload.values()),
            unit="coordinate" if self.norm == "coordinate" else "upload",
            mechanism="gaussian" if self.norm == "l2" else "laplace",
            noise=self.noise / (2.0 * self.clip),
        )

    def release(
        self,
        upload: Mapping[str, Floats],
        scales: Mapping[str, float],
        draw: tuple[int, ...] = (),
    ) -> dict[str, Floats]:
        """Return the arrays clipped and noised, with the same names and shapes.

        Parameters
        ----------
        upload : all arrays that are protected together
        scales : the unit of each array
        draw : names this draw among those of a seeded run; without a seed it has no effect
        """
        names = sorted(upload)
        values = [upload[name].astype(np.float64).reshape(-1) / scales[name] for name in names]
        if not values:
            return {}
        noisy = self.noised(self.clipped(np.concatenate(values)), draw)
        parts = np.split(noisy, np.cumsum([len(part) for part in values])[:-1])
        return {
            name: (part * scales[name]).astype(np.float32).reshape(upload[name].shape)
            for name, part in zip(names, parts, strict=True)
        }

    def noised(self, whole: Integers, draw: tuple[int, ...] = ()) -> Doubles:
        """Return what ``clipped`` returned, or a sum of it, with noise and as floats, shape (d,).

        Of a sum, the promise is about each summand.
        """
        random = RandomBits.secret() if self.private else RandomBits.seeded(self.seed, *draw)
        sampler = discrete_gaussian if self.norm == "l2" else discrete_laplace
        noisy = whole + sampler(_GRID_BITS, len(whole), random)
        return np.asarray(noisy * (self.noise / 2**_GRID_BITS))

    def clipped(self, values: Doubles) -> Integers:
        """Return values in steps of the grid, within the bound to the last step, shape (d,)."""
        # Infinite ones and those that are not numbers, too: they must not show through the noise.
        values = np.nan_to_num(values, nan=0.0, posinf=self.clip, neginf=-self.clip)
        steps = 2**_GRID_BITS / self.noise
        bound = int(self.clip * steps)
        if self.norm == "coordinate":
            return np.asarray(np.clip(np.rint(values * steps), -bound, bound), np.int64)
        order = 1 if self.norm == "l1" else 2
        largest = max(float(np.abs(values).max(initial=0.0)), self.clip)
        norm = largest * float(np.linalg.norm(values / largest, order))  # without overflow
        factor = min(1.0, self.clip / norm) if norm else 1.0
        while True:
            # Towards zero: rounding must not make the norm larger.
            whole: Integers = np.trunc(values * factor * steps).astype(np.int64)
            if int((np.abs(whole) ** order).sum()) <= bound**order:
                return whole
            factor *= 1.0 - 1e-9  # doubles are rounded, the bound is not
