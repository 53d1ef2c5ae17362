"""Read columns of CSV and Parquet files, and name rows in error messages.

A row of a CSV file is named ``line 4 (data row 3)``: the line an editor shows, and the row
counted from 1 without the header. They differ by more than one if cells contain line breaks or
lines are blank. A row of a Parquet file is named ``row 3``, counted from 1.
"""

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shared.errors import FedGTError

_CSV_SUFFIXES = (".csv",)
_PARQUET_SUFFIXES = (".parquet", ".pq")
_PARQUET_MAGIC = b"PAR1"

# First bytes of other files that users have named .csv.
_OTHER_FORMATS = {
    _PARQUET_MAGIC: "a Parquet file",
    b"\x1f\x8b": "gzip-compressed",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
_HEAD_BYTES = 1 << 20
_DELIMITERS = (",", ";", "\t", "|")
_LISTED = 20  # columns that an error names
# A record must fit into a block; the default of 1 MiB is too short for tables with free text.
_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class TableFile(ABC):
    """Table file with named columns."""

    path: Path
    names: tuple[str, ...]  # without surrounding blanks, distinct

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


def open_table(path: Path, empty: Sequence[str] = ()) -> TableFile:
    """Open a table by its file name and first bytes; rows are read later.

    ``empty`` are texts that stand for an empty cell of a CSV file, such as ``NA``.
    """
    suffix = path.suffix.lower()
    if suffix not in _CSV_SUFFIXES + _PARQUET_SUFFIXES:
        raise FedGTError(f"{path}: the name must end in .csv or .parquet to say what the file is")
    try:
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except FileNotFoundError:
        raise FedGTError(f"{path}: no such file") from None
    except OSError as error:
        raise FedGTError(f"{path} cannot be read: {error.strerror}") from None
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise FedGTError(f"{path} is empty")
    if suffix in _PARQUET_SUFFIXES:
        return ParquetTable.open(path, head)
    return replace(CsvTable.open(path, head), empty=tuple(empty))


@dataclass(frozen=True)
class CsvTable(TableFile):
    """UTF-8 text with a header, whose cells are separated by commas, semicolons, tabs or bars."""

    header: tuple[str, ...] = field(default=())  # the names as written in the file
    delimiter: str = ","
    empty: tuple[str, ...] = ()  # texts that stand for an empty cell

    @classmethod
    def open(cls, path: Path, head: bytes) -> "CsvTable":
        """Read the header from the first bytes of the file."""
        for magic, kind in _OTHER_FORMATS.items():
            if head.startswith(magic):
                raise FedGTError(f"{path} is not a CSV file: it is {kind}")
        if b"\0" in head:
            raise FedGTError(f"{path} is not a CSV file: it is not text")
        delimiter, header = _header(path, head.decode("utf-8-sig", errors="surrogateescape"))
        if any(_undecodable(name) for name in header):
            raise FedGTError(f"{path}, line 1: not UTF-8 text: save the file as UTF-8")
        return cls(path, _distinct_names(path, header), tuple(header), delimiter)

    def read(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """Return the named columns as text, so that no value is changed by type inference."""
        raw = [self.header[self.names.index(name)] for name in names]
        try:
            table = arrow_csv.read_csv(
                self.path,
                read_options=arrow_csv.ReadOptions(block_size=_BLOCK_BYTES),
                parse_options=arrow_csv.ParseOptions(
                    newlines_in_values=True, delimiter=self.delimiter
                ),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=raw,
                    column_types={name: pa.string() for name in raw},
                    strings_can_be_null=True,
                    null_values=["", *self.empty],
                ),
            )
        except (pa.ArrowException, OSError) as error:
            self._raise_for_malformed_row()
            raise FedGTError(f"{self.path} cannot be read: {_one_line(error)}") from None
        if self._suspicious_quotes(table.num_rows):
            self._raise_for_malformed_row()
        if table.num_rows == 0:
            raise FedGTError(f"{self.path} has a header but no rows")
        return {name: table.column(place) for place, name in enumerate(names)}

    def row_names(self, indexes: Sequence[int]) -> list[str]:
        """Return the lines an editor shows, and the rows."""
        lines: dict[int, int] = {}
        for found, (line, _) in enumerate(self._records()):
            if found in indexes:
                lines[found] = line
            if found >= max(indexes):
                break
        return [
            f"line {lines[index]} (data row {index + 1})"
            if index in lines
            else f"data row {index + 1}"
            for index in indexes
        ]

    def _records(self, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """Yield first line and cells of every data row. Slow: only for error messages.

        With ``strict``, a quoted cell that spans lines by mistake is an error, and a row with a
        harmless stray quotation mark yields no cells.
        """
        with self.path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
            reader = csv.reader(stream, strict=strict, delimiter=self.delimiter)
            line, header_seen = 1, False
            while True:
                try:
                    record = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    if strict and (reader.line_num > line or "end of data" in str(error)):
                        raise FedGTError(
                            f"{self.path}, line {line}: a quoted cell that begins here does not "
                            f"end as it should: {error}"
                        ) from None
                    yield line, []
                else:
                    if record and header_seen:
                        yield line, record
                    header_seen = header_seen or bool(record)
                line = reader.line_num + 1

    def _suspicious_quotes(self, rows: int) -> bool:
        """Return whether an unclosed quotation mark may have hidden rows.

        A quoted cell that is not closed takes the following rows as its text, without an error.
        """
        quotes = line_feeds = returns = 0
        with self.path.open("rb") as stream:
            for block in iter(lambda: stream.read(_BLOCK_BYTES), b""):
                quotes += block.count(b'"')
                line_feeds += block.count(b"\n")
                returns += block.count(b"\r")
        return quotes % 2 == 1 or (quotes > 0 and max(line_feeds, returns) > rows + 1)

    def _raise_for_malformed_row(self) -> None:
        """Raise an error that names the first malformed row, if there is one."""
        index = -1
        for index, (line, cells) in enumerate(self._records(strict=True)):
            place = f"{self.path}, line {line} (data row {index + 1})"
            for name, cell in zip(self.names, cells, strict=False):
                if _undecodable(cell):
                    raise FedGTError(
                        f"{place}, column {name!r}: not UTF-8 text: save the file as UTF-8"
                    )
            if cells and len(cells) != len(self.names):
                raise FedGTError(f"{place}: {len(cells)} cells, the header has {len(self.names)}")
        if index < 0:
            raise FedGTError(f"{self.path} has a header but no rows")


@dataclass(frozen=True)
class ParquetTable(TableFile):
    """Apache Parquet file."""

    fields: tuple[str, ...] = field(default=())  # the names as written in the file

    @classmethod
    def open(cls, path: Path, head: bytes) -> "ParquetTable":
        """Read the names from the file's footer."""
        if not head.startswith(_PARQUET_MAGIC):
            raise FedGTError(f"{path} is not a Parquet file")
        try:
            with pq.ParquetFile(path) as file:
                fields, rows = file.schema_arrow.names, file.metadata.num_rows
        except (pa.ArrowException, OSError) as error:
            raise FedGTError(f"{path} is a damaged Parquet file: {_one_line(error)}") from None
        if rows == 0:
            raise FedGTError(f"{path} has columns but no rows")
        return cls(path, _distinct_names(path, fields), tuple(fields))

    def read(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """Return the named columns in the types they were stored in."""
        raw = [self.fields[self.names.index(name)] for name in names]
        try:
            with pq.ParquetFile(self.path) as file:
                table = file.read(columns=raw)
            table.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise FedGTError(f"{self.path} is a damaged Parquet file: {_one_line(error)}") from None
        return {name: table.column(field) for name, field in zip(names, raw, strict=True)}

    def row_names(self, indexes: Sequence[int]) -> list[str]:
        """Return the rows, counted from 1."""
        return [f"row {index + 1}" for index in indexes]


@dataclass(frozen=True)
class SelectedRows(TableFile):
    """Some rows of another table; errors name them as in the file."""

    table: TableFile
    rows: NDArray[np.int64]

    @classmethod
    def of(cls, table: TableFile, rows: NDArray[np.int64]) -> "SelectedRows":
        """Select rows by their indexes, which count from 0."""
        return cls(table.path, table.names, table, rows)

    def read(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """Return the selected rows of the named columns."""
        return self.select(self.table.read(names))

    def select(self, columns: dict[str, pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
        """Return the selected rows of columns that were read from the whole table."""
        return {name: column.take(pa.array(self.rows)) for name, column in columns.items()}

    def row_names(self, indexes: Sequence[int]) -> list[str]:
        """Return the names of the rows in the file."""
        return self.table.row_names([int(self.rows[index]) for index in indexes])


def _header(path: Path, text: str) -> tuple[str, list[str]]:
    """Return the delimiter that gives most columns, whose names seldom hold one, and the names."""
    found: dict[str, list[str]] = {}
    first_error: csv.Error | None = None
    for mark in _DELIMITERS:
        lines = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=mark)
        try:
            found[mark] = next(record for record in lines if record)
        except csv.Error as error:  # of quoted names, with another delimiter
            first_error = first_error or error
    if not found:
        raise FedGTError(f"{path}, line 1: the header cannot be read: {first_error}")
    return max(found.items(), key=lambda entry: len(entry[1]))


def _distinct_names(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names without surrounding blanks; raise an error for two equal ones."""
    stripped = tuple(name.strip() for name in names)
    for place, name in enumerate(stripped):
        if name and name in stripped[:place]:
            raise FedGTError(f"{path} has two columns named {name!r}")
    return stripped


def _undecodable(text: str) -> bool:
    """Return whether ``text`` holds bytes that are not UTF-8, escaped by ``surrogateescape``."""
    return not text.isascii() and any("\udc80" <= character <= "\udcff" for character in text)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
