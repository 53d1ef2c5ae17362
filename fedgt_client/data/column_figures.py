"""Figures of a column that a schema publishes: how they are made, rounded and pooled.

Figures are a number of rows, a mean and a standard deviation (of the population, not the sample).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedgt_client.data.schema import IndicatorColumn, NumericColumn

DIGITS = 3  # significant digits that are published
CLIP = 5.0  # deviations; at most 1 / 25 of the cells that the figures are of lie further out
# Deviations in the mean: 1 for an exponential distribution, 8.6 for the views of a video channel.
HEAVY_TAIL = 2.0


@dataclass(frozen=True)
class Figures:
    """Number of rows, mean and standard deviation of numbers."""

    rows: int
    mean: float
    std: float

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> "Figures":
        """Compute the figures of at least one number, shape (n,)."""
        if values.min() == values.max():
            return cls(len(values), float(values[0]), 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            return cls(len(values), float(values.mean()), float(values.std()))

    @property
    def is_finite(self) -> bool:
        """Whether the numbers were small enough to be squared."""
        return math.isfinite(self.mean) and math.isfinite(self.std)

    def rounded(self, digits: int) -> "Figures":
        """Round to significant digits: exact figures would disclose more about the rows.

        The mean is rounded by the size of the deviation and not by its own: years or timestamps
        are far from 0. Where all numbers are the same, they are the mean, and it stays.
        """
        rows = int(_significant(self.rows, digits))
        if not self.std:
            return Figures(rows, self.mean, 0.0)
        std = _significant(self.std, digits)
        # Adding 0.0 turns -0.0 into 0.0.
        return Figures(rows, round(self.mean, digits - 1 - _magnitude(std)) + 0.0, std)


def pooled(parts: Sequence[Figures]) -> Figures:
    """Return the figures of all rows together, exactly and in whatever order the parts are.

    With n = Σ nᵢ: mean m = Σ nᵢ mᵢ / n, variance Σ nᵢ (sᵢ² + (mᵢ - m)²) / n.
    """
    rows = sum(part.rows for part in parts)
    mean = math.fsum(part.rows * part.mean for part in parts) / rows
    squares = (part.rows * (part.std**2 + (part.mean - mean) ** 2) for part in parts)
    return Figures(rows, mean, math.sqrt(math.fsum(squares) / rows))


def numeric_column(
    name: str,
    figures: Figures,
    log_figures: Figures | None,
    *,
    scale: str | None = None,
    clip: float | None = CLIP,
) -> NumericColumn:
    """Make a column of its figures; ``scale`` None leaves the choice to the rule.

    The rule: the logarithm, if no number is negative and the deviation is more than
    ``HEAVY_TAIL`` times the mean.
    """
    if scale is None:
        heavy = log_figures is not None and figures.std > HEAVY_TAIL * figures.mean
        scale = "log" if heavy else "linear"
    return NumericColumn(
        name=name,
        scale="log" if scale == "log" else "linear",
        mean=figures.mean,
        std=figures.std,
        log_mean=log_figures.mean if log_figures else None,
        log_std=log_figures.std if log_figures else None,
        clip=clip,
        rows=figures.rows,
    )


def indicator_column(name: str, figures: Figures) -> IndicatorColumn:
    """Make a column of the share of ones."""
    return IndicatorColumn(name=name, mean=min(max(figures.mean, 0.0), 1.0), rows=figures.rows)


def _significant(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def _magnitude(value: float) -> int:
    return math.floor(math.log10(value))
