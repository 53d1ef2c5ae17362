"""Columns out of a CSV or Parquet file, and the words for a place in it.

A place in a CSV file is given as ``line 4 (data row 3)``: the line an editor shows, and the row
counted from 1 without the header. They differ by more than one where cells hold line breaks or
lines are blank. A place in a Parquet file is ``row 3``, counted from 1.
"""

import csv
import io
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from shared.errors import FedGTError

_CSV_SUFFIXES = (".csv",)
_PARQUET_SUFFIXES = (".parquet", ".pq")
_PARQUET_MAGIC = b"PAR1"

# How other files begin that people have been seen to call .csv.
_FOREIGN = {
    _PARQUET_MAGIC: "a Parquet file",
    b"\x1f\x8b": "gzip-compressed",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
_HEAD_BYTES = 1 << 20
# A record must fit into a block; the default of 1 MiB is short for a table with free text.
_BLOCK_BYTES = 16 << 20


@dataclass(frozen=True)
class TableFile(ABC):
    """A file with named columns."""

    path: Path
    names: tuple[str, ...]  # without surrounding blanks, no two alike

    @abstractmethod
    def read(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """The named columns; there is at least one row, and an empty CSV cell is null."""

    @abstractmethod
    def row(self, index: int) -> str:
        """How to name the row at ``index``, which counts from 0."""

    def fault(self, index: int, column: str, message: str) -> FedGTError:
        """The error for one cell."""
        return FedGTError(f"{self.path}, {self.row(index)}, column {column!r}: {message}")

    def require(self, names: Sequence[str]) -> None:
        """Refuse a file that lacks one of the columns."""
        for name in names:
            if name not in self.names:
                there = ", ".join(map(repr, self.names))
                hint = ""
                if len(self.names) == 1 and any(mark in self.names[0] for mark in ";\t|"):
                    hint = " (columns must be separated by commas)"
                raise FedGTError(f"{self.path} has no column {name!r}; there are: {there}{hint}")


def open_table(path: Path) -> TableFile:
    """Look at a file's name and beginning; its rows are read later."""
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
    return CsvTable.open(path, head)


@dataclass(frozen=True)
class CsvTable(TableFile):
    """Comma-separated UTF-8 text with a header."""

    header: tuple[str, ...] = field(default=())  # the names as they stand in the file

    @classmethod
    def open(cls, path: Path, head: bytes) -> "CsvTable":
        """Read the header from the first bytes of the file."""
        for magic, kind in _FOREIGN.items():
            if head.startswith(magic):
                raise FedGTError(f"{path} is not a CSV file: it is {kind}")
        if b"\0" in head:
            raise FedGTError(f"{path} is not a CSV file: it is not text")
        try:
            text = io.StringIO(head.decode("utf-8-sig", errors="surrogateescape"), newline="")
            header = next(record for record in csv.reader(text, strict=True) if record)
        except csv.Error as error:
            raise FedGTError(f"{path}, line 1: the header cannot be read: {error}") from None
        if any(_undecodable(name) for name in header):
            raise FedGTError(f"{path}, line 1: not UTF-8 text: save the file as UTF-8")
        return cls(path, _distinct_names(path, header), tuple(header))

    def read(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """The named columns as text, so that nothing is mangled on the way in."""
        raw = [self.header[self.names.index(name)] for name in names]
        try:
            table = arrow_csv.read_csv(
                self.path,
                read_options=arrow_csv.ReadOptions(block_size=_BLOCK_BYTES),
                parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=raw,
                    column_types={name: pa.string() for name in raw},
                    strings_can_be_null=True,
                    null_values=[""],
                ),
            )
        except (pa.ArrowException, OSError) as error:
            self._explain()
            raise FedGTError(f"{self.path} cannot be read: {_one_line(error)}") from None
        if self._suspicious_quotes(table.num_rows):
            self._explain()
        if table.num_rows == 0:
            raise FedGTError(f"{self.path} has a header but no rows")
        return {name: table.column(place) for place, name in enumerate(names)}

    def row(self, index: int) -> str:
        """The line in an editor, and the row."""
        for found, (line, _) in enumerate(self._records()):
            if found == index:
                return f"line {line} (data row {index + 1})"
        return f"data row {index + 1}"

    def _records(self, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
        """First line and cells of every data row. Slow: only to put a name to a fault.

        With ``strict``, a quoted cell that swallows lines is an error, and the cells of a row with
        a harmless stray quotation mark are left out.
        """
        with self.path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as stream:
            reader = csv.reader(stream, strict=strict)
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
        """Whether quotation marks may have swallowed rows.

        A quoted cell that is not closed takes the rows after it as its text, without another sign.
        """
        quotes = line_feeds = returns = 0
        with self.path.open("rb") as stream:
            for block in iter(lambda: stream.read(_BLOCK_BYTES), b""):
                quotes += block.count(b'"')
                line_feeds += block.count(b"\n")
                returns += block.count(b"\r")
        return quotes % 2 == 1 or (quotes > 0 and max(line_feeds, returns) > rows + 1)

    def _explain(self) -> None:
        """Raise an error that names the first row that is not well-formed, if there is one."""
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
    """An Apache Parquet file."""

    fields: tuple[str, ...] = field(default=())  # the names as they stand in the file

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
        """The named columns in the types they were stored in."""
        raw = [self.fields[self.names.index(name)] for name in names]
        try:
            with pq.ParquetFile(self.path) as file:
                table = file.read(columns=raw)
            table.validate(full=True)
        except (pa.ArrowException, OSError) as error:
            raise FedGTError(f"{self.path} is a damaged Parquet file: {_one_line(error)}") from None
        return {name: table.column(field) for name, field in zip(names, raw, strict=True)}

    def row(self, index: int) -> str:
        """The row, counted from 1."""
        return f"row {index + 1}"


def _distinct_names(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """The names without surrounding blanks; two alike are refused."""
    stripped = tuple(name.strip() for name in names)
    for place, name in enumerate(stripped):
        if name and name in stripped[:place]:
            raise FedGTError(f"{path} has two columns named {name!r}")
    return stripped


def _undecodable(text: str) -> bool:
    """Whether bytes that are no UTF-8 were smuggled into ``text`` by ``surrogateescape``."""
    return not text.isascii() and any("\udc80" <= character <= "\udcff" for character in text)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
