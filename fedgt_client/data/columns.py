"""What the cells of a column mean: text, numbers, one of a list of names.

Cells are compared without surrounding blanks, and a cell of blanks is an empty one. Among
numbers, ``nan`` and ``inf`` are not empty cells but errors.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedgt_client.data.table_files import TableFile
from shared.errors import FedGTError

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_WHOLE_NUMBER = re.compile(r"(-?[0-9]+)\.0+")
# Doubles hold every whole number up to here exactly.
_EXACT = 2.0**53
_SHOWN_CHARACTERS = 40


def as_text(table: TableFile, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Any column as text without surrounding blanks, null where the cell is empty.

    A whole number reads the same from every type: 7, 7.0 in a column of doubles, and "7". In a
    column of doubles NaN is an empty cell too: that is how tools store a label that is not there.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = _without_fraction(column.cast(pa.float64()))
    try:
        text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    except pa.ArrowException:
        raise FedGTError(
            f"{table.path}, column {name!r}: holds {column.type}, which cannot be read as text"
        ) from None
    empty = pc.equal(text, "")
    return pc.if_else(empty, None, text) if pc.any(empty).as_py() else text


def is_numeric(column: pa.ChunkedArray) -> bool:
    """Whether the file itself says that the column holds numbers."""
    kind = column.type
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def numbers(
    table: TableFile, name: str, column: pa.ChunkedArray
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The column as finite numbers, and where it is empty (0 stands there); each of shape (n,)."""
    if pa.types.is_temporal(column.type):
        raise FedGTError(f"{table.path}, column {name!r}: holds {column.type}, not numbers")
    if not (is_numeric(column) or pa.types.is_boolean(column.type)):
        column = _parsed(table, name, as_text(table, name, column))
    column = column.cast(pa.float64(), safe=False)
    missing = to_numpy(pc.is_null(column))
    values = to_numpy(pc.fill_null(column, 0.0))
    if (stray := first(~np.isfinite(values))) is not None:
        message = f"{float(values[stray])} is not a finite number"
        raise table.fault(stray, name, f"{message}; leave the cell empty if it is not known")
    return values, missing


def is_written_numbers(text: pa.ChunkedArray) -> bool:
    """Whether all cells that are not empty are numbers, ``nan`` and ``inf`` included."""
    try:
        text.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def first_non_number(text: pa.ChunkedArray) -> int | None:
    """The first row whose text is neither empty nor written as a number."""
    return first(~to_numpy(pc.fill_null(pc.match_substring_regex(text, _NUMBER), True)))


def codes(
    table: TableFile, name: str, column: pa.ChunkedArray, allowed: Sequence[str], what: str
) -> NDArray[np.int64]:
    """The place of each cell in ``allowed``, -1 where the cell is empty; shape (n,).

    ``1.0`` stands for ``1`` and ``True`` for ``true`` where the exact text is not allowed: tools
    write whole numbers as decimals as soon as one cell of the column is empty.
    """
    text = as_text(table, name, column)
    found = places(text, pa.array(allowed, pa.string()))
    strays = (found < 0) & to_numpy(pc.is_valid(text))
    if strays.any():
        by_plain = {plain(label): place for place, label in reversed(list(enumerate(allowed)))}
        distinct = pc.unique(text.filter(pa.array(strays)))
        second = np.array([by_plain.get(plain(cell), -1) for cell in distinct.to_pylist()])
        found[strays] = second[places(text, distinct)[strays]]
        if (stray := first(strays & (found < 0))) is not None:
            cell = show(text[stray].as_py())
            raise table.fault(stray, name, f"{cell} is not {what}")
    return found


def places(text: pa.ChunkedArray, known: pa.Array) -> NDArray[np.int64]:
    """Where each cell stands in ``known``, -1 where it does not; shape (n,)."""
    return to_numpy(pc.fill_null(pc.index_in(text, value_set=known), -1)).astype(np.int64)


def plain(text: str) -> str:
    """The shortest way to write the same whole number or truth value."""
    if whole := _WHOLE_NUMBER.fullmatch(text):
        return whole[1]
    return text.lower() if text.lower() in ("true", "false") else text


def first(flags: NDArray[np.bool_]) -> int | None:
    """The first index that is set."""
    found = np.flatnonzero(flags)
    return int(found[0]) if len(found) else None


def show(value: object) -> str:
    """A cell as it may stand in a one-line message."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def to_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """A column without nulls as one array."""
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _parsed(table: TableFile, name: str, text: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return text.cast(pa.float64())
    except pa.ArrowInvalid as error:
        if (stray := first_non_number(text)) is None:
            raise FedGTError(f"{table.path}, column {name!r}: {error}") from None
        cell = show(text[stray].as_py())
        raise table.fault(stray, name, f"{cell} is not a number") from None


def _without_fraction(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Doubles as whole numbers, if all of them are; NaN is null."""
    column = pc.if_else(pc.is_nan(column), None, column)
    valid = to_numpy(column.drop_null())
    if np.isfinite(valid).all() and (np.abs(valid) <= _EXACT).all() and (valid % 1 == 0).all():
        return column.cast(pa.int64())
    return column
