"""What one upload discloses, as the ledger keeps it."""

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.files import Array

# What a part's promise is about: two states that the receiver can hardly tell apart differ in one
# value that is uploaded, in the whole upload, or in one training node's label.
Unit = Literal["coordinate", "upload", "label", "none"]
# pure: any mechanism that has an ε and no more is known of it.
Mechanism = Literal["laplace", "gaussian", "pure", "none"]


class Part(BaseModel):
    """Arrays of an upload that are protected in the same way."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arrays: tuple[str, ...]
    coordinates: int = Field(ge=0)  # values in them
    unit: Unit = "none"
    mechanism: Mechanism = "none"
    # Scale of the noise over sensitivity: 1/ε, or σ/sensitivity of Gaussian noise.
    noise: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    # Parts of the same draw use one and the same noisy data, which counts once; empty: a new draw.
    draw: str = ""


class Release(BaseModel):
    """An upload: its protected parts, and what stands beside them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parts: tuple[Part, ...]
    private: bool = True  # False: the noise can be drawn again by whoever knows its seed

    @property
    def protected(self) -> tuple[Part, ...]:
        """The parts with noise."""
        return tuple(part for part in self.parts if part.unit != "none")

    @classmethod
    def unprotected(cls) -> "Release":
        """Return the release of an upload without noise."""
        return cls(parts=())

    def with_part(self, part: Part) -> "Release":
        """Return this release with another part."""
        return self.model_copy(update={"parts": (*self.parts, part)})

    def complete(self, upload: Mapping[str, Array]) -> "Release":
        """Return this release with every array of ``upload`` that it does not name yet."""
        named = {name for part in self.parts for name in part.arrays}
        rest = sorted(name for name in upload if name not in named)
        if not rest:
            return self
        without = Part(arrays=tuple(rest), coordinates=count_values(upload, rest))
        return self.model_copy(update={"parts": (*self.parts, without)})


def count_values(upload: Mapping[str, Array], names: Iterable[str]) -> int:
    """Return how many values the named arrays hold."""
    return sum(upload[name].size for name in names)
