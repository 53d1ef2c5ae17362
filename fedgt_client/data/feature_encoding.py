"""Encode table columns as a feature matrix: scaled numbers, indicators, one-hot categories.

An empty number or indicator becomes the schema's mean, an empty category a row of zeros. What lies
beyond the schema's range is clipped. All are counted.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from fedgt_client.data.columns import (
    category_codes,
    first_true,
    parse_indicators,
    parse_numbers,
)
from fedgt_client.data.schema import IndicatorColumn, NumericColumn, Schema
from fedgt_client.data.table import TableFile
from fedgt_client.graph import sparse_features

Progress = Callable[[str], None]

# CSR takes 8 bytes per entry, a dense matrix 4, and CSR is slower to access.
_SPARSE_BELOW = 0.25


@dataclass(frozen=True)
class CellCounts:
    """Cells that are not as they were in the file, by column."""

    imputed: Counter[str] = field(default_factory=Counter)  # empty numbers, set to the mean
    missing: Counter[str] = field(default_factory=Counter)  # empty categories, set to zeros
    clipped: Counter[str] = field(default_factory=Counter)  # numbers beyond the schema's range


@dataclass(frozen=True)
class Features:
    """Encoded columns, and what was changed on the way."""

    matrix: NDArray[np.float32] | csr_array  # shape: (n, p)
    counts: CellCounts


def encode_features(
    table: TableFile, columns: dict[str, pa.ChunkedArray], schema: Schema, progress: Progress
) -> Features:
    """Encode the schema's columns, removing them from ``columns`` one by one to free memory.

    The matrix is sparse if indicators and one-hot encoding make it mostly zero.
    """
    n, p = len(columns[schema.columns[0].name]), len(schema.feature_names)
    builder: _Builder = _Sparse(n, p) if _density(schema) < _SPARSE_BELOW else _Dense(n, p)
    counts = CellCounts()
    start = 0
    for column in schema.columns:
        progress(f"encoding {column.name}")
        cells = columns.pop(column.name)
        if isinstance(column, NumericColumn):
            builder.add(np.full(n, start), _scaled(table, column, cells, counts))
        elif isinstance(column, IndicatorColumn):
            values, empty = parse_indicators(table, column.name, cells)
            values[empty] = column.mean
            builder.add(np.full(n, start), values.astype(np.float32))
            counts.imputed[column.name] += int(empty.sum())
        else:
            expected = "a category of the schema"
            codes = category_codes(table, column.name, cells, column.categories, expected)
            builder.add(start + np.maximum(codes, 0), (codes >= 0).astype(np.float32))
            counts.missing[column.name] += int((codes < 0).sum())
        start += len(column.feature_names)
    return Features(builder.matrix(), CellCounts(+counts.imputed, +counts.missing, +counts.clipped))


def _density(schema: Schema) -> float:
    """Return the expected share of entries that are not zero, going by the schema alone."""
    columns = schema.columns
    filled = sum(c.mean if isinstance(c, IndicatorColumn) else 1.0 for c in columns)
    return filled / len(schema.feature_names)


def _scaled(
    table: TableFile, column: NumericColumn, cells: pa.ChunkedArray, counts: CellCounts
) -> NDArray[np.float32]:
    """Return (x - mean) / std of the column's scale, clipped, and 0 where x is missing; (n,)."""
    values, empty = parse_numbers(table, column.name, cells)
    outside = np.zeros(len(values), np.bool_)
    x = values
    if column.scale == "log":
        outside = values < 0  # below the range of the logarithm
        x = np.log1p(np.maximum(values, 0))
    mean, std = column.scaling
    with np.errstate(over="ignore"):
        scaled = ((x - mean) / std).astype(np.float32)
    if column.clip is not None:
        outside |= np.abs(scaled) > np.float32(column.clip)
        scaled = scaled.clip(-column.clip, column.clip)
    scaled[empty] = 0
    if (invalid := first_true(~np.isfinite(scaled))) is not None:
        message = f"{values[invalid]:g} is too far from the schema's mean {mean:g}"
        raise table.cell_error(invalid, column.name, message)
    counts.imputed[column.name] += int(empty.sum())
    counts.clipped[column.name] += int((outside & ~empty).sum())
    return scaled


class _Builder(Protocol):
    """Matrix that is filled one source column at a time."""

    def add(self, features: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        """Set one feature of each row; both of shape (n,)."""

    def matrix(self) -> NDArray[np.float32] | csr_array:
        """Return the matrix, shape (n, p)."""


class _Dense:
    def __init__(self, n: int, p: int) -> None:
        self._matrix = np.zeros((n, p), np.float32)
        self._rows = np.arange(n)

    def add(self, features: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        self._matrix[self._rows, features] = values

    def matrix(self) -> NDArray[np.float32]:
        return self._matrix


class _Sparse:
    """Sparse matrix; filled in the order of features, so each row of the CSR form is sorted."""

    def __init__(self, n: int, p: int) -> None:
        self._shape = n, p
        self._rows: list[NDArray[np.int32]] = []
        self._features: list[NDArray[np.int32]] = []
        self._values: list[NDArray[np.float32]] = []

    def add(self, features: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        rows = np.flatnonzero(values)
        self._rows.append(rows.astype(np.int32))
        self._features.append(features[rows].astype(np.int32))
        self._values.append(values[rows])

    def matrix(self) -> csr_array:
        parts = self._rows, self._features, self._values
        rows, features, values = (np.concatenate(part) for part in parts)
        matrix = coo_array((values, (rows, features)), shape=self._shape).tocsr()
        indptr = matrix.indptr.astype(np.int64)
        return sparse_features(indptr, matrix.indices, matrix.data, self._shape[1])
