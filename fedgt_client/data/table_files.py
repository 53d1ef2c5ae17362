"""Open table files, CSV and Parquet, by their names and first bytes.

A row of a Parquet file is named ``row 3``, counted from 1.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fedgt_client.data.csv_table import PLAIN, CsvFormat, CsvTable, open_bytes
from fedgt_client.data.table import TableFile, distinct_names, one_line
from shared.errors import FedGTError

_CSV_SUFFIXES = (".csv", ".csv.gz")
_PARQUET_SUFFIXES = (".parquet", ".pq")
_PARQUET_MAGIC = b"PAR1"
_HEAD_BYTES = 1 << 20


def open_table(path: Path, written: CsvFormat = PLAIN) -> TableFile:
    """Open a table by its file name and first bytes; rows are read later.

    ``written`` says how cells are written.
    """
    name = path.name.lower()
    if not name.endswith(_CSV_SUFFIXES + _PARQUET_SUFFIXES):
        raise FedGTError(
            f"{path}: the name must end in .csv, .csv.gz or .parquet to say what the file is"
        )
    try:
        with open_bytes(path) as stream:
            head = stream.read(_HEAD_BYTES)
    except FileNotFoundError:
        raise FedGTError(f"{path}: no such file") from None
    except OSError as error:
        reason = error.strerror or one_line(error)
        raise FedGTError(f"{path} cannot be read: {reason}") from None
    except (EOFError, zlib.error) as error:
        raise FedGTError(f"{path} is damaged: {one_line(error)}") from None
    if not head.strip(b"\xef\xbb\xbf \t\r\n"):
        raise FedGTError(f"{path} is empty")
    if name.endswith(_PARQUET_SUFFIXES):
        return ParquetTable.open(path, head, written)
    return CsvTable.open(path, head, written)


@dataclass(frozen=True)
class ParquetTable(TableFile):
    """Apache Parquet file."""

    fields: tuple[str, ...] = field(default=())  # the names as written in the file
    empty: tuple[str, ...] = ()  # texts that stand for an empty cell

    @classmethod
    def open(cls, path: Path, head: bytes, written: CsvFormat) -> "ParquetTable":
        """Read the names from the file's footer."""
        if not head.startswith(_PARQUET_MAGIC):
            raise FedGTError(f"{path} is not a Parquet file")
        try:
            with pq.ParquetFile(path) as file:
                fields, rows = file.schema_arrow.names, file.metadata.num_rows
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FedGTError(f"{path} is a damaged Parquet file: {one_line(error)}") from None
        if rows == 0:
            raise FedGTError(f"{path} has columns but no rows")
        return cls(path, distinct_names(path, fields), tuple(fields), written.empty)

    def read(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """Return the named columns in the types they were stored in."""
        raw = [self.fields[self.names.index(name)] for name in names]
        try:
            with pq.ParquetFile(self.path) as file:
                table = file.read(columns=raw)
            table.validate(full=True)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise FedGTError(f"{self.path} is a damaged Parquet file: {one_line(error)}") from None
        columns = {name: table.column(field) for name, field in zip(names, raw, strict=True)}
        return emptied(columns, self.empty)

    def row_names(self, indexes: Sequence[int]) -> list[str]:
        """Return the rows, counted from 1."""
        return [f"row {index + 1}" for index in indexes]


def emptied(
    columns: dict[str, pa.ChunkedArray], texts: tuple[str, ...]
) -> dict[str, pa.ChunkedArray]:
    """Return the columns without the texts that stand for empty cells."""
    if not texts:
        return columns
    return {name: _emptied(column, texts) for name, column in columns.items()}


def _emptied(column: pa.ChunkedArray, texts: tuple[str, ...]) -> pa.ChunkedArray:
    """Return the column without the texts that stand for empty cells, NaN among doubles."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        gone = pc.is_in(column, value_set=pa.array(texts, column.type))
    elif pa.types.is_floating(column.type) and "nan" in [text.lower() for text in texts]:
        gone = pc.is_nan(column.cast(pa.float64()))
    else:
        return column
    return pc.if_else(gone, None, column)
