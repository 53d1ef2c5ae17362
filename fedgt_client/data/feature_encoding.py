"""Encode table columns as a feature matrix: scaled numbers, one-hot categories.

An empty number becomes the schema's mean (0 after scaling), an empty category a row of zeros;
both are counted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedgt_client.data.columns import category_codes, first_true, parse_numbers
from fedgt_client.data.schema import NumericColumn, Schema
from fedgt_client.data.table_files import TableFile
from fedgt_client.graph import sparse_features

Progress = Callable[[str], None]

# CSR takes 8 bytes per entry, a dense matrix 4, and CSR is slower to access.
_SPARSE_BELOW = 0.25


@dataclass(frozen=True)
class Features:
    """Encoded columns, and the number of empty cells of each."""

    matrix: NDArray[np.float32] | csr_array  # shape: (n, p)
    imputed: Mapping[str, int]  # numeric columns with empty cells
    missing: Mapping[str, int]  # categorical columns with empty cells


def encode_features(
    table: TableFile, columns: dict[str, pa.ChunkedArray], schema: Schema, progress: Progress
) -> Features:
    """Encode the schema's columns, removing them from ``columns`` one by one to free memory.

    The matrix is sparse if one-hot encoding makes it mostly zero.
    """
    n, p = len(columns[schema.columns[0].name]), len(schema.feature_names)
    k = len(schema.columns)
    # A column adds at most one non-zero feature to a row.
    builder: _Builder = _Sparse(n, p, k) if k < _SPARSE_BELOW * p else _Dense(n, p)
    imputed: dict[str, int] = {}
    missing: dict[str, int] = {}
    start = 0
    for column in schema.columns:
        progress(f"encoding {column.name}")
        cells = columns.pop(column.name)
        if isinstance(column, NumericColumn):
            values, empty = parse_numbers(table, column.name, cells)
            builder.add(np.full(n, start), _scaled(table, column, values, empty))
            counts = imputed
        else:
            expected = "a category of the schema"
            positions = category_codes(table, column.name, cells, column.categories, expected)
            empty = positions < 0
            builder.add(start + np.maximum(positions, 0), (~empty).astype(np.float32))
            counts = missing
        if empty.any():
            counts[column.name] = int(empty.sum())
        start += len(column.feature_names)
    return Features(builder.matrix(), imputed, missing)


def _scaled(
    table: TableFile,
    column: NumericColumn,
    values: NDArray[np.float64],
    empty: NDArray[np.bool_],
) -> NDArray[np.float32]:
    """Return (x - mean) / std, and 0 where x is missing; shape (n,)."""
    with np.errstate(over="ignore"):
        scaled = ((values - column.mean) / column.std).astype(np.float32)
    scaled[empty] = 0
    if (invalid := first_true(~np.isfinite(scaled))) is not None:
        message = f"{values[invalid]:g} is too far from the schema's mean {column.mean:g}"
        raise table.cell_error(invalid, column.name, message)
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

    def __init__(self, n: int, p: int, k: int) -> None:
        self._features = np.empty((n, k), np.int32)
        self._values = np.empty((n, k), np.float32)
        self._filled = 0
        self._p = p

    def add(self, features: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        self._features[:, self._filled] = features
        self._values[:, self._filled] = values
        self._filled += 1

    def matrix(self) -> csr_array:
        kept = self._values != 0
        indptr = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept.sum(axis=1), out=indptr[1:])
        return sparse_features(indptr, self._features[kept], self._values[kept], self._p)
