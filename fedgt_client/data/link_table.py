"""Read a table of links: two ends that are ids of nodes, and perhaps a weight."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedgt_client.data.columns import first_true, parse_numbers
from fedgt_client.data.node_ids import node_numbers
from fedgt_client.data.table import TableFile


class LinkColumns(NamedTuple):
    """Names of the columns to read."""

    source: str
    target: str
    weight: str | None = None

    def names(self) -> list[str]:
        """Return those that are used."""
        return [name for name in self if name is not None]


@dataclass(frozen=True)
class Links:
    """Rows of the edges file: ends as node numbers, and a weight of each or none."""

    source: NDArray[np.int64]  # shape: (rows,)
    target: NDArray[np.int64]  # shape: (rows,)
    weights: NDArray[np.float64] | None  # shape: (rows,)
    unknown: int = 0  # rows left out because an end is no node's id


def read_links(
    table: TableFile, columns: LinkColumns, ids: pa.Array, known: str, *, drop_unknown: bool
) -> Links:
    """Read the ends of every link, and the weight if a column of it is named.

    The ends must be among ``ids``, which are those of ``known``; with ``drop_unknown`` links with
    another end are left out and counted.
    """
    cells = table.read(columns.names())
    source, target = (
        node_numbers(table, name, cells.pop(name), ids, None if drop_unknown else known)
        for name in (columns.source, columns.target)
    )
    weights = None
    if columns.weight is not None:
        weights = _weights(table, columns.weight, cells.pop(columns.weight))
    kept = (source >= 0) & (target >= 0)
    if kept.all():
        return Links(source, target, weights)
    left = None if weights is None else weights[kept]
    return Links(source[kept], target[kept], left, unknown=int((~kept).sum()))


def _weights(table: TableFile, name: str, column: pa.ChunkedArray) -> NDArray[np.float64]:
    """Return the weights, checked to be positive as float32 too, as graphs store them; (rows,)."""
    values, empty = parse_numbers(table, name, column)
    if (missing := first_true(empty)) is not None:
        raise table.cell_error(missing, name, "the weight is empty")
    with np.errstate(over="ignore"):
        stored = values.astype(np.float32)
    if (invalid := first_true(~((stored > 0) & np.isfinite(stored)))) is not None:
        message = f"the weight {values[invalid]:g} is not a positive number (of 32 bits)"
        raise table.cell_error(invalid, name, message)
    return values
