"""Read CSV files.

A row is named ``line 4 (data row 3)``: the line an editor shows, and the row counted from 1 without
the header. They differ by more than one if cells contain line breaks or lines are blank.
"""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa
import pyarrow.csv as arrow_csv

from fedgt_client.data.table import TableFile, distinct_names, one_line
from shared.errors import FedGTError

# First bytes of other files that users have named .csv.
_OTHER_FORMATS = {
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "gzip-compressed, and its name must then end in .csv.gz",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xff\xfe": "UTF-16 text",
    b"\xfe\xff": "UTF-16 text",
}
_DELIMITERS = (",", ";", "\t", "|")
# A record must fit into a block; the default of 1 MiB is too short for tables with free text.
_BLOCK_BYTES = 16 << 20
_GZIP_SUFFIX = ".gz"


@dataclass(frozen=True)
class CsvFormat:
    """How cells are written, as far as the file does not say it."""

    empty: tuple[str, ...] = ()  # texts that stand for an empty cell, such as NA
    decimal_comma: bool = False  # 1.234,5 is a number; 1234.5 is not


PLAIN = CsvFormat()


@dataclass(frozen=True)
class CsvTable(TableFile):
    """UTF-8 text with a header, whose cells are separated by commas, semicolons, tabs or bars."""

    header: tuple[str, ...] = field(default=())  # the names as written in the file
    delimiter: str = ","
    written: CsvFormat = PLAIN

    @property
    def decimal_comma(self) -> bool:
        """Whether numbers have a comma in place of the point."""
        return self.written.decimal_comma

    @classmethod
    def open(cls, path: Path, head: bytes, written: CsvFormat) -> "CsvTable":
        """Read the header from the first bytes of the file."""
        for magic, kind in _OTHER_FORMATS.items():
            if head.startswith(magic):
                raise FedGTError(f"{path} is not a CSV file: it is {kind}")
        if b"\0" in head:
            raise FedGTError(f"{path} is not a CSV file: it is not text")
        delimiter, header = _header(path, head.decode("utf-8-sig", errors="surrogateescape"))
        if any(_undecodable(name) for name in header):
            raise FedGTError(f"{path}, line 1: not UTF-8 text: save the file as UTF-8")
        return cls(path, distinct_names(path, header), tuple(header), delimiter, written)

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
                    null_values=["", *self.written.empty],
                ),
            )
        except (pa.ArrowException, OSError) as error:
            with suppress(EOFError, zlib.error, OSError):  # not to be decompressed
                self._raise_for_malformed_row()
            raise FedGTError(f"{self.path} cannot be read: {one_line(error)}") from None
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
        with (
            open_bytes(self.path) as file,
            io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="") as stream,
        ):
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
        with open_bytes(self.path) as stream:
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


def open_bytes(path: Path) -> BinaryIO:
    """Open a file to read its bytes, decompressed if its name ends in .gz."""
    if path.name.lower().endswith(_GZIP_SUFFIX):
        return cast(BinaryIO, gzip.open(path, "rb"))
    return path.open("rb")


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


def _undecodable(text: str) -> bool:
    """Return whether ``text`` holds bytes that are not UTF-8, escaped by ``surrogateescape``."""
    return not text.isascii() and any("\udc80" <= character <= "\udcff" for character in text)
