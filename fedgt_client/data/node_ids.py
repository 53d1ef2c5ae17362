"""Ids of nodes: present, distinct, and found again in the ends of links.

Ids are compared as text without surrounding blanks: 7 in a column of numbers equals "7" in a CSV
file, and "007" is another id.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedgt_client.data.columns import as_text, first_true, positions, quote_cell, to_numpy
from fedgt_client.data.table import TableFile
from shared.errors import FedGTError

_LISTED = 10  # repeated ids that an error names


def parse_ids(table: TableFile, name: str, column: pa.ChunkedArray) -> pa.Array:
    """Return the ids as text, checked to be present; shape (rows,)."""
    ids = as_text(table, name, column).combine_chunks()
    _require_present(table, name, ids)
    return ids


def first_rows(ids: pa.Array) -> NDArray[np.int64]:
    """Return the first row of each distinct id, ascending."""
    distinct = pc.unique(ids)
    if len(distinct) == len(ids):
        return np.arange(len(ids))
    # Distinct ids are in the order of their first rows.
    _, rows = np.unique(positions(ids, distinct), return_index=True)
    return np.sort(rows).astype(np.int64)


def duplicates_error(
    table: TableFile, name: str, ids: pa.Array, first: NDArray[np.int64], remedy: str
) -> FedGTError:
    """Return the error for ids that occur more than once; ``first`` as of ``first_rows``."""
    again = np.setdiff1d(np.arange(len(ids)), first)
    _, places = np.unique(positions(ids, pc.unique(ids))[again], return_index=True)
    repeated = again[np.sort(places)]  # the second row of each repeated id
    shown = [int(row) for row in repeated[:_LISTED]]
    earlier = [pc.index(ids, ids[row]).as_py() for row in shown]
    names = table.row_names([*shown, *earlier])
    listed = "; ".join(
        f"{quote_cell(ids[row].as_py())} in {there} and {here}"
        for row, here, there in zip(shown, names, names[len(shown) :], strict=False)
    )
    more = f"; and {len(repeated) - _LISTED} more" if len(repeated) > _LISTED else ""
    return FedGTError(
        f"{table.path}, column {name!r}: {_count(len(repeated))} more than once: {listed}{more} "
        f"({remedy})"
    )


def _count(ids: int) -> str:
    return "an id occurs" if ids == 1 else f"{ids} ids occur"


def node_numbers(
    table: TableFile, name: str, column: pa.ChunkedArray, ids: pa.Array, known: str | None
) -> NDArray[np.int64]:
    """Return the node of each cell, which must hold one of the ``ids`` of ``known``; (rows,).

    With ``known`` None others are -1 instead of an error.
    """
    text = as_text(table, name, column)
    _require_present(table, name, text)
    found = positions(text, ids)
    if known is not None and (unknown := first_true(found < 0)) is not None:
        cell = quote_cell(text[unknown].as_py())
        raise table.cell_error(unknown, name, f"{cell} is not an id of {known}")
    return found


def _require_present(table: TableFile, name: str, text: pa.ChunkedArray | pa.Array) -> None:
    if text.null_count:
        first = int(to_numpy(pc.is_null(text)).argmax())
        raise table.cell_error(first, name, "the id is empty")
