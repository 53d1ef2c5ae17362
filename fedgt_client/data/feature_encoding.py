"""The feature matrix: numeric columns scaled, categorical ones one-hot, by the schema.

An empty number becomes the schema's mean (0 after scaling), an empty category a row of zeros;
both are counted.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedgt_client.data.columns import codes, first, numbers
from fedgt_client.data.schema import NumericColumn, Schema
from fedgt_client.data.table_files import TableFile
from fedgt_client.graph import SparseRows

Progress = Callable[[str], None]

# CSR takes 8 bytes an entry where a dense matrix takes 4, and slower access on top.
_SPARSE_BELOW = 0.25


@dataclass(frozen=True)
class Features:
    """The encoded columns, and how many cells of each were empty."""

    matrix: NDArray[np.float32] | SparseRows  # shape: (n, p)
    imputed: Mapping[str, int]  # of numeric columns with empty cells
    missing: Mapping[str, int]  # of categorical columns with empty cells


def encode(
    table: TableFile, columns: dict[str, pa.ChunkedArray], schema: Schema, progress: Progress
) -> Features:
    """Turn the schema's columns into features, emptying ``columns`` of them on the way.

    The matrix is sparse where one-hot makes it mostly zero.
    """
    n, p = len(columns[schema.columns[0].name]), len(schema.feature_names)
    k = len(schema.columns)
    # A column gives a row at most one non-zero feature.
    builder: _Builder = _Sparse(n, p, k) if k < _SPARSE_BELOW * p else _Dense(n, p)
    imputed: dict[str, int] = {}
    missing: dict[str, int] = {}
    start = 0
    for column in schema.columns:
        progress(f"encoding {column.name}")
        cells = columns.pop(column.name)  # freed as soon as it is encoded
        if isinstance(column, NumericColumn):
            values, empty = numbers(table, column.name, cells)
            builder.add(np.full(n, start), _scaled(table, column, values, empty))
            counts = imputed
        else:
            what = "a category of the schema"
            places = codes(table, column.name, cells, column.categories, what)
            empty = places < 0
            builder.add(start + np.maximum(places, 0), (~empty).astype(np.float32))
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
    """(x - mean) / std, and 0 where x is not known; shape (n,)."""
    with np.errstate(over="ignore"):
        scaled = ((values - column.mean) / column.std).astype(np.float32)
    scaled[empty] = 0
    if (stray := first(~np.isfinite(scaled))) is not None:
        message = f"{values[stray]:g} is too far from the schema's mean {column.mean:g}"
        raise table.fault(stray, column.name, message)
    return scaled


class _Builder(Protocol):
    """A matrix that is filled one source column at a time."""

    def add(self, features: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        """Set one feature of each row; both of shape (n,)."""

    def matrix(self) -> NDArray[np.float32] | SparseRows:
        """What has been set, shape (n, p)."""


class _Dense:
    def __init__(self, n: int, p: int) -> None:
        self._matrix = np.zeros((n, p), np.float32)
        self._rows = np.arange(n)

    def add(self, features: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        self._matrix[self._rows, features] = values

    def matrix(self) -> NDArray[np.float32]:
        return self._matrix


class _Sparse:
    """Filled in the order of features, so that each row of the CSR form comes out sorted."""

    def __init__(self, n: int, p: int, k: int) -> None:
        self._features = np.empty((n, k), np.int32)
        self._values = np.empty((n, k), np.float32)
        self._filled = 0
        self._p = p

    def add(self, features: NDArray[np.int64], values: NDArray[np.float32]) -> None:
        self._features[:, self._filled] = features
        self._values[:, self._filled] = values
        self._filled += 1

    def matrix(self) -> SparseRows:
        kept = self._values != 0
        indptr = np.zeros(len(kept) + 1, np.int64)
        np.cumsum(kept.sum(axis=1), out=indptr[1:])
        return SparseRows(indptr, self._features[kept], self._values[kept], self._p)
