"""Parse the cells of a table column as text, numbers, indicators or categories.

Cells are compared without surrounding blanks; a cell of blanks is empty. In a column of numbers
``nan`` and ``inf`` are errors, not empty cells.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedgt_client.data.table import TableFile
from shared.errors import FedGTError

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_DECIMAL_COMMA = r"^[+-]?[0-9.]*,[0-9]+$"
# With a decimal comma, points may stand between groups of three digits and nowhere else.
_COMMA_NUMBER = r"^[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)?(,[0-9]*)?([eE][+-]?[0-9]+)?$"
# 31.12.2025, 12/31/25, 2025/12/31, perhaps with a time.
_DATE = (
    r"^([0-9]{1,2}[./-][0-9]{1,2}[./-]([0-9]{2}|[0-9]{4})|[0-9]{4}[./][0-9]{1,2}[./][0-9]{1,2})"
    r"([ T].*)?$"
)
# 1,234,567 or 12.5 %: a number as reports print it.
_PRINTED = r"^[€$£¥]?\s?[+-]?[0-9]{1,3}([,' ]?[0-9]{3})*(\.[0-9]+)?\s?[%€$£¥]?$"
_LEADING_ZERO = r"^0[0-9]"
# What people and tools write, in any case, where a value is not known.
_MARKS = pa.array(
    [
        *("na", "n/a", "#n/a", "nan", "nil", "none", "null", "\\n", "missing", "unknown"),
        *("?", "-", "--", "."),
    ]
)
_WHOLE_NUMBER = re.compile(r"(-?[0-9]+)(?:\.0+|,0)")
# Doubles represent every whole number up to this one exactly.
_EXACT = 2.0**53
_SHOWN_CHARACTERS = 40
_INDICATORS = ("0", "1", "false", "true")
_INDICATOR_SPELLINGS = 16  # 1, 1.0, True, TRUE, ...; more distinct texts are something else


def as_text(table: TableFile, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert any column to text without surrounding blanks, null where the cell is empty.

    A whole number gives the same text from every type: 7, 7.0 in a column of doubles, and "7".
    In a column of doubles NaN is an empty cell too: tools store missing labels that way.
    """
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = _whole_numbers(column.cast(pa.float64()))
    try:
        text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    except pa.ArrowException:
        raise FedGTError(
            f"{table.path}, column {name!r}: holds {column.type}, which cannot be read as text"
        ) from None
    empty = pc.equal(text, "")
    return pc.if_else(empty, None, text) if pc.any(empty).as_py() else text


def is_numeric(column: pa.ChunkedArray) -> bool:
    """Return whether the column has a numeric type in the file."""
    kind = column.type
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def parse_numbers(
    table: TableFile, name: str, column: pa.ChunkedArray
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the column as finite numbers, 0 where a cell is empty, and which are; shape (n,)."""
    if pa.types.is_temporal(column.type):
        raise FedGTError(f"{table.path}, column {name!r}: holds {column.type}, not numbers")
    if not (is_numeric(column) or pa.types.is_boolean(column.type)):
        column = _parse_text(table, name, as_text(table, name, column))
    column = column.cast(pa.float64(), safe=False)
    missing = to_numpy(pc.is_null(column))
    values = to_numpy(pc.fill_null(column, 0.0))
    if (invalid := first_true(~np.isfinite(values))) is not None:
        message = f"{float(values[invalid])} is not a finite number"
        remedy = "leave the cell empty if it is not known"
        if np.isnan(values[invalid]):
            remedy += ", or name such cells by --empty NaN"
        raise table.cell_error(invalid, name, f"{message}; {remedy}")
    return values, missing


def parse_indicators(
    table: TableFile, name: str, column: pa.ChunkedArray
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the column as 0.0 and 1.0, 0 where a cell is empty, and which are; shape (n,)."""
    expected = (
        "0 or 1, as the schema says of this column: if it is right, merge the schema with one "
        "proposed from this table"
    )
    codes = category_codes(table, name, column, _INDICATORS, expected)
    return np.isin(codes, (1, 3)).astype(np.float64), codes < 0


def is_indicator(column: pa.ChunkedArray) -> bool:
    """Return whether all non-empty cells, numbers or text, are 0 and 1, or false and true."""
    distinct = pc.unique(column.drop_null())
    if len(distinct) > _INDICATOR_SPELLINGS:
        return False
    found = {canonical_spelling(str(value)) for value in distinct.to_pylist()}
    return bool(found) and (found <= {"0", "1"} or found <= {"false", "true"})


def is_numeric_text(table: TableFile, text: pa.ChunkedArray) -> bool:
    """Return whether all non-empty cells are written as numbers, including ``nan`` and ``inf``."""
    try:
        _with_points(table, text).cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def is_date_text(text: pa.ChunkedArray) -> bool:
    """Return whether all non-empty cells are dates or times, as of ISO 8601 or as people write."""
    try:
        text.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return bool(pc.all(pc.match_substring_regex(text, _DATE)).as_py())
    return True


def has_decimal_commas(text: pa.ChunkedArray) -> bool:
    """Return whether all non-empty cells are numbers, some with a comma in place of the point."""
    commas = pc.match_substring_regex(text, _DECIMAL_COMMA)
    numbers = pc.or_(commas, pc.match_substring_regex(text, _NUMBER))
    return bool(pc.any(commas).as_py() and pc.all(numbers).as_py())


def is_printed(text: pa.ChunkedArray) -> bool:
    """Return whether all non-empty cells are numbers as reports print them: 1,234 or 12.5 %."""
    return bool(pc.all(pc.match_substring_regex(text, _PRINTED)).as_py())


def has_leading_zeros(text: pa.ChunkedArray) -> bool:
    """Return whether a cell is a number like 01234, as postcodes and other codes are."""
    return bool(pc.any(pc.match_substring_regex(text, _LEADING_ZERO)).as_py())


def marks_of_empty(text: pa.ChunkedArray) -> list[str]:
    """Return the distinct texts that may stand for empty cells, such as NA, sorted."""
    found = pc.is_in(pc.utf8_lower(text), value_set=_MARKS)
    return sorted(pc.unique(text.filter(found)).to_pylist())


def empty_options(marks: Sequence[str]) -> str:
    """Return the options by which these texts are read as empty cells."""
    return " ".join(f"--empty {shlex.quote(mark)}" for mark in marks)


def numbers_with_marks(table: TableFile, text: pa.ChunkedArray) -> str | None:
    """Return how to read a column of numbers and texts such as NA; None for another column."""
    marks = marks_of_empty(text)
    marked = pc.is_in(text, value_set=pa.array(marks, pa.string()))
    rest = text.filter(pc.invert(marked)).drop_null()
    commas = not table.decimal_comma and has_decimal_commas(rest)
    if not marks or not len(rest) or not (commas or is_numeric_text(table, rest)):
        return None
    also = " --decimal-comma" if commas else ""
    listed = " and ".join(repr(mark) for mark in marks)
    return f"its cells are numbers but for {listed}: add {empty_options(marks)}{also}"


def first_non_number(text: pa.ChunkedArray) -> int | None:
    """Return the first row whose text is neither empty nor a number."""
    return first_true(~to_numpy(pc.fill_null(pc.match_substring_regex(text, _NUMBER), True)))


def category_codes(
    table: TableFile, name: str, column: pa.ChunkedArray, allowed: Sequence[str], expected: str
) -> NDArray[np.int64]:
    """Return the index of each cell in ``allowed``, -1 where the cell is empty; shape (n,).

    ``1.0`` is accepted for ``1`` and ``True`` for ``true`` if the exact text is not allowed:
    many tools write whole numbers as decimals once one cell of the column is empty. ``expected``
    completes the error message "... is not".
    """
    text = as_text(table, name, column)
    found = positions(text, pa.array(allowed, pa.string()))
    unknown = (found < 0) & to_numpy(pc.is_valid(text))
    if unknown.any():
        # The first of two labels with the same canonical spelling wins.
        labels = reversed(list(enumerate(allowed)))
        by_spelling = {canonical_spelling(label): index for index, label in labels}
        distinct = pc.unique(text.filter(pa.array(unknown)))
        spellings = [canonical_spelling(cell) for cell in distinct.to_pylist()]
        second = np.array([by_spelling.get(spelling, -1) for spelling in spellings])
        found[unknown] = second[positions(text, distinct)[unknown]]
        if (invalid := first_true(unknown & (found < 0))) is not None:
            cell = quote_cell(text[invalid].as_py())
            raise table.cell_error(invalid, name, f"{cell} is not {expected}")
    return found


def positions(text: pa.ChunkedArray, known: pa.Array) -> NDArray[np.int64]:
    """Return the index of each cell in ``known``, -1 where it is absent; shape (n,)."""
    return to_numpy(pc.fill_null(pc.index_in(text, value_set=known), -1)).astype(np.int64)


def canonical_spelling(text: str) -> str:
    """Return the shortest spelling of the same whole number or truth value."""
    if whole := _WHOLE_NUMBER.fullmatch(text):
        return whole[1]
    return text.lower() if text.lower() in ("true", "false") else text


def first_true(flags: NDArray[np.bool_]) -> int | None:
    """Return the first index whose flag is set, or None."""
    found = np.flatnonzero(flags)
    return int(found[0]) if len(found) else None


def quote_cell(value: object) -> str:
    """Format a cell for a one-line message."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def to_numpy(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """Convert a column without nulls to one array."""
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _parse_text(table: TableFile, name: str, text: pa.ChunkedArray) -> pa.ChunkedArray:
    points = _with_points(table, text)
    try:
        return points.cast(pa.float64())
    except pa.ArrowInvalid as error:
        if (invalid := first_non_number(points)) is None:
            raise FedGTError(f"{table.path}, column {name!r}: {error}") from None
        written = text[invalid].as_py()
        hint = ""
        if marks := marks_of_empty(pa.chunked_array([[written]])):
            options = empty_options(marks)
            hint = f"; {options} of 'fedgt data import' reads it as an empty cell"
        elif table.decimal_comma:
            hint = " with a decimal comma, which all CSV files must have with --decimal-comma"
        elif re.match(_DECIMAL_COMMA, written):
            hint = "; --decimal-comma of 'fedgt data import' reads it"
        message = f"{quote_cell(written)} is not a number{hint}"
        raise table.cell_error(invalid, name, message) from None


def _with_points(table: TableFile, text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Write numbers of a table with decimal commas as 1234.5; what else has a point is marked."""
    if not table.decimal_comma:
        return text
    plain = pc.replace_substring(pc.replace_substring(text, ".", ""), ",", ".")
    marked = pc.replace_substring(text, ".", "?")  # 1.5 is none of these numbers
    return pc.if_else(pc.match_substring_regex(text, _COMMA_NUMBER), plain, marked)


def _whole_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert doubles to whole numbers if all of them are whole; NaN becomes null."""
    column = pc.if_else(pc.is_nan(column), None, column)
    valid = to_numpy(column.drop_null())
    if np.isfinite(valid).all() and (np.abs(valid) <= _EXACT).all() and (valid % 1 == 0).all():
        return column.cast(pa.int64())
    return column
