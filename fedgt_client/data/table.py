"""A table with named columns, and names of its rows in error messages."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shared.errors import FedGTError

_LISTED = 20  # columns that an error names


@dataclass(frozen=True)
class TableFile(ABC):
    """Table file with named columns."""

    path: Path
    names: tuple[str, ...]  # without surrounding blanks, distinct

    @property
    def decimal_comma(self) -> bool:
        """Whether numbers that are written as text have a comma in place of the point."""
        return False

    @abstractmethod
    def read(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """Return the named columns; there is at least one row, and an empty CSV cell is null."""

    @abstractmethod
    def row_names(self, indexes: Sequence[int]) -> list[str]:
        """Return the names of the rows at ``indexes``, which count from 0."""

    def row_name(self, index: int) -> str:
        """Return the name of one row."""
        return self.row_names([index])[0]

    def cell_error(self, index: int, column: str, message: str) -> FedGTError:
        """Return the error for one cell."""
        return FedGTError(f"{self.path}, {self.row_name(index)}, column {column!r}: {message}")

    def require_columns(self, names: Sequence[str]) -> None:
        """Raise an error if the file lacks one of the columns."""
        for name in names:
            if name not in self.names:
                # The most alike come first: of a wide table not all can be listed.
                alike = get_close_matches(name, self.names, _LISTED)
                listed = list(dict.fromkeys([*alike, *self.names]))
                there = ", ".join(map(repr, listed[:_LISTED]))
                more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
                raise FedGTError(f"{self.path} has no column {name!r}; there are: {there}{more}")


@dataclass(frozen=True)
class SelectedRows(TableFile):
    """Some rows of another table; errors name them as in the file."""

    table: TableFile
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, table: TableFile, rows: NDArray[np.int64]) -> "SelectedRows":
        """Select rows by their indexes, which count from 0."""
        return cls(table.path, table.names, table, rows)

    @property
    def decimal_comma(self) -> bool:
        """As in the whole table."""
        return self.table.decimal_comma

    def read(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """Return the selected rows of the named columns."""
        return self.select(self.table.read(names))

    def select(self, columns: dict[str, pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
        """Return the selected rows of columns that were read from the whole table."""
        return {name: column.take(pa.array(self.rows)) for name, column in columns.items()}

    def row_names(self, indexes: Sequence[int]) -> list[str]:
        """Return the names of the rows in the file."""
        return self.table.row_names([int(self.rows[index]) for index in indexes])


def distinct_names(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names without surrounding blanks; raise an error for two equal ones."""
    stripped = tuple(name.strip() for name in names)
    for place, name in enumerate(stripped):
        if name and name in stripped[:place]:
            raise FedGTError(f"{path} has two columns named {name!r}")
    return stripped


def one_line(error: Exception) -> str:
    """Return an error's message without line breaks."""
    return " ".join(str(error).split())
