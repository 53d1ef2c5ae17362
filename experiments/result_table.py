"""A table of numbers, ours beside the paper's, and its three forms."""

import csv
import io
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.paper_values import PaperFigure

EMPTY = "–"  # not run; never the paper's number

Best = Literal["highest", "lowest", "none"]


@dataclass(frozen=True)
class Entry:
    """A cell: ours over the seeds, and the paper's."""

    mean: float | None = None
    deviation: float | None = None  # of a sample; None with one seed
    seeds: int = 0
    paper: PaperFigure | None = None

    @classmethod
    def of(cls, values: Sequence[float], paper: PaperFigure | None = None) -> "Entry":
        """Make a cell from one value for each seed."""
        if not values:
            return cls(paper=paper)
        deviation = statistics.stdev(values) if len(values) > 1 else None
        return cls(statistics.fmean(values), deviation, len(values), paper)


@dataclass(frozen=True)
class Column:
    """A heading, and how its numbers are shown."""

    heading: str
    digits: int = 2
    best: Best = "none"


@dataclass(frozen=True)
class Row:
    """A label and a cell for each column."""

    label: str
    entries: tuple[Entry, ...]
    ranked: bool = True  # whether it may be the best of a column

    @property
    def seeds(self) -> str:
        """How many seeds its cells have: one number, or the range."""
        counts = sorted({entry.seeds for entry in self.entries if entry.seeds})
        if not counts:
            return EMPTY
        return str(counts[0]) if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"


@dataclass(frozen=True)
class Table:
    """Rows under headings, with a title and what a reader must know."""

    title: str
    first: str  # heading of the labels
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    def texts(self, *, bold: tuple[str, str]) -> list[list[str]]:
        """Return all cells as text, the best of a column between the two ``bold`` marks."""
        best = [self._best(index) for index in range(len(self.columns))]
        return [
            [
                row.label,
                *(
                    _text(entry, column, bold if row.ranked and is_top else ("", ""))
                    for entry, column, top in zip(row.entries, self.columns, best, strict=True)
                    for is_top in [_shown(entry, column) == top]
                ),
                row.seeds,
            ]
            for row in self.rows
        ]

    def headings(self) -> list[str]:
        """Return the headings of all columns; the last one tells the number of seeds."""
        return [self.first, *(column.heading for column in self.columns), "seeds"]

    def _best(self, index: int) -> str | None:
        """Return the best number of a column as it is shown, so that equals are equal."""
        column = self.columns[index]
        means = [row.entries[index].mean for row in self.rows if row.ranked]
        known = [mean for mean in means if mean is not None]
        if column.best == "none" or len(known) < 2:
            return None
        chosen = max(known) if column.best == "highest" else min(known)
        return f"{chosen:.{column.digits}f}"


def _shown(entry: Entry, column: Column) -> str:
    return EMPTY if entry.mean is None else f"{entry.mean:.{column.digits}f}"


def _text(entry: Entry, column: Column, bold: tuple[str, str]) -> str:
    """Return a cell as ``ours ± deviation (paper)``."""
    text = f"{bold[0]}{_shown(entry, column)}{bold[1]}"
    if entry.deviation is not None:
        text += f" ± {entry.deviation:.{column.digits}f}"
    if entry.paper is not None:
        text += f" ({entry.paper.mean:.{column.digits}f})"
    return text


def markdown(table: Table) -> str:
    """Return a table for a README, and the notes below it."""
    lines = [table.headings(), ["---"] * len(table.headings()), *table.texts(bold=("**", "**"))]
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([*rows, "", *table.notes]).rstrip() + "\n"


def comma_separated(table: Table) -> str:
    """Return a table for programs: a line for each cell, with full precision."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["row", "column", "mean", "deviation", "seeds", "paper", "paper deviation"])
    for row in table.rows:
        for column, entry in zip(table.columns, row.entries, strict=True):
            paper = entry.paper
            figures = (entry.mean, entry.deviation, entry.seeds)
            printed = (paper.mean, paper.deviation) if paper else (None, None)
            writer.writerow([row.label, column.heading, *figures, *printed])
    return stream.getvalue()
