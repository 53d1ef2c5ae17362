"""What a benchmark reports: tables of numbers with the machine they come from."""

import textwrap
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from shared.errors import FedGTError

Value = str | int | float | None
Row = dict[str, Value]

EMPTY = "–"  # not measured

_HEADING = 12  # characters of a line on a terminal


class Part(BaseModel):
    """A part of a report; results on disk are checked when they are read."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Column(Part):
    """A key of the rows and the heading over it, with its unit."""

    key: str
    heading: str


class Table(Part):
    """Rows under headings."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    labels: int = 1  # columns that together name a row

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        headings: dict[str, str],
        rows: Sequence[Row],
        *,
        labels: int = 1,
    ) -> "Table":
        """Make a table of the named columns; what else the rows hold is left out."""
        columns = tuple(Column(key=key, heading=heading) for key, heading in headings.items())
        kept = tuple({key: row.get(key) for key in headings} for row in rows)
        return cls(name=name, title=title, columns=columns, rows=kept, labels=labels)

    def headings(self) -> list[str]:
        """Return the headings."""
        return [column.heading for column in self.columns]

    def texts(self) -> list[list[str]]:
        """Return all cells as text."""
        return [[as_text(row.get(column.key)) for column in self.columns] for row in self.rows]

    def parts(self, width: int) -> list["Table"]:
        """Split the table into parts of as many columns as fit beside each other."""
        names, others = self.columns[: self.labels], self.columns[self.labels :]
        room = width - sum(self._width(column) for column in names)
        parts: list[list[Column]] = [[]]
        left = room
        for column in others:
            needed = self._width(column)
            if needed > left and parts[-1]:
                parts.append([])
                left = room
            parts[-1].append(column)
            left -= needed
        return [self.model_copy(update={"columns": (*names, *part)}) for part in parts]

    def _width(self, column: Column) -> int:
        """Return the characters of a column with a gap beside it."""
        cells = (as_text(row.get(column.key)) for row in self.rows)
        return max(map(len, (*cells, *broken(column.heading).split("\n")))) + 2


class Report(Part):
    """The result of one benchmark."""

    bench: str
    command: str  # that repeats it
    machine: Row
    tables: tuple[Table, ...]
    notes: tuple[str, ...] = ()

    def table(self, name: str) -> Table:
        """Return a table by its name."""
        return next(table for table in self.tables if table.name == name)


def as_text(value: Value) -> str:
    """Return a cell: three significant digits of a measured number, all digits of a count."""
    if value is None:
        return EMPTY
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def broken(heading: str) -> str:
    """Return a heading in lines that are hardly wider than the numbers below it."""
    return "\n".join(textwrap.wrap(heading, _HEADING, break_long_words=False))


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def ratio(ours: Value, peer: Value) -> float | None:
    """Return ours as a multiple of the peer's; None where one of them was not measured."""
    if not isinstance(ours, int | float) or not isinstance(peer, int | float) or not peer:
        return None
    return ours / peer


def number(row: Row, key: str) -> float:
    """Return a number of a row; raise an error where it is missing."""
    value = row.get(key)
    if not isinstance(value, int | float):
        raise FedGTError(f"a row has no number '{key}': run its benchmark again")
    return float(value)
