"""Propose a schema from one institution's nodes, for people to review and then share.

The schema says itself what it discloses (``schema_disclosure``): rounded figures of columns of
numbers, the distinct values of columns that have few of them, and the labels; no rows. A text
column with many values, or whose values mostly occur once (names, addresses), is left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from fedgt_client.data.column_figures import (
    CLIP,
    DIGITS,
    Figures,
    indicator_column,
    numeric_column,
)
from fedgt_client.data.columns import (
    as_text,
    canonical_spelling,
    empty_options,
    first_non_number,
    has_decimal_commas,
    has_leading_zeros,
    is_date_text,
    is_indicator,
    is_numeric,
    is_numeric_text,
    is_printed,
    marks_of_empty,
    numbers_with_marks,
    parse_indicators,
    parse_numbers,
)
from fedgt_client.data.csv_table import PLAIN, CsvFormat
from fedgt_client.data.schema import (
    AnyColumn,
    CategoricalColumn,
    IndicatorColumn,
    NumericColumn,
    Schema,
    first_error,
    value_order,
)
from fedgt_client.data.schema_disclosure import disclosure
from fedgt_client.data.table import TableFile
from fedgt_client.data.table_files import open_table
from shared.errors import FedGTError

MAX_CATEGORIES = 100
# If more than this share of the cells occurs in one row only, a value identifies its row.
_UNIQUE_SHARE = 0.5
# A category in fewer rows than this may identify somebody: worth a look before sharing.
_RARE = 5
_COMMAS = "its numbers have a decimal comma: add --decimal-comma"
_PRINTED = (
    "its numbers have a unit, or commas that may stand between thousands: write them as 1234.5 to "
    "use them (or add --decimal-comma if 1,234 is a little more than 1)"
)
_DATES = "it holds dates or times: turn them into numbers to use them"


@dataclass(frozen=True)
class ColumnChoices:
    """Uses of columns that the operator states; the others are inferred."""

    id: str
    label: str
    exclude: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    linear: tuple[str, ...] = ()  # numeric, not by the logarithm
    log: tuple[str, ...] = ()  # numeric, by the logarithm
    written: CsvFormat = PLAIN
    max_categories: int = MAX_CATEGORIES
    clip: float = CLIP
    digits: int = DIGITS

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns that hold numbers."""
        return self.numeric + self.linear + self.log


@dataclass(frozen=True)
class Proposal:
    """Proposed schema, and what a person should know before sharing it."""

    schema: Schema
    omitted: dict[str, str]  # column -> why it is not in the schema
    notes: dict[str, list[str]]  # what is worth a look -> in which columns


@dataclass(frozen=True)
class _Notes:
    columns: dict[str, list[str]] = field(default_factory=dict)

    def add(self, text: str, column: str) -> None:
        self.columns.setdefault(text, []).append(column)


def propose_schema(nodes: Path, choices: ColumnChoices) -> Proposal:
    """Infer a schema from a nodes file."""
    table = open_table(nodes, choices.written)
    _check_choices(table, choices)
    unused = ("", choices.id, *choices.exclude)
    cells = table.read([name for name in table.names if name not in unused])
    labels = _labels(table, choices, cells.pop(choices.label))
    columns: list[AnyColumn] = []
    omitted: dict[str, str] = {}
    notes = _Notes()
    if marks := marks_of_empty(pa.chunked_array([labels])):
        notes.add(f"labels that may stand for empty cells: {empty_options(marks)}", choices.label)
    if len(labels) == 1:
        notes.add("the only label here: merge with the schemas of other institutions", labels[0])
    for name in list(cells):
        try:
            columns.append(_column(table, name, cells.pop(name), choices, notes))
        except _OmittedError as reason:
            omitted[name] = str(reason)
    if not columns:
        why = "".join(f"; {name!r}: {reason}" for name, reason in omitted.items())
        raise FedGTError(f"{nodes} has no column to make a feature of{why}")
    return Proposal(_schema(nodes, columns, labels, choices.digits), omitted, notes.columns)


class _OmittedError(Exception):
    """Reason why a column is not proposed."""


def _schema(
    nodes: Path, columns: Sequence[AnyColumn], labels: tuple[str, ...], digits: int
) -> Schema:
    rounding = f"Figures are rounded to {digits} significant digits."
    description = f"Proposed by one institution. {disclosure(columns, labels)} {rounding}"
    try:
        return Schema(description=description, columns=tuple(columns), labels=labels)
    except ValidationError as error:
        raise FedGTError(f"{nodes} gives no valid schema: {first_error(error)}") from None


def _check_choices(table: TableFile, choices: ColumnChoices) -> None:
    table.require_columns([choices.id, choices.label])
    table.require_columns([*choices.exclude, *choices.categorical, *choices.numbers])
    if choices.id == choices.label:
        raise FedGTError(f"column {choices.id!r} cannot be the id and the label column")
    uses = {choices.id: "the id column", choices.label: "the label column"}
    for use, names in (
        ("excluded", choices.exclude),
        ("categorical", choices.categorical),
        ("numeric", choices.numeric),
        ("linear", choices.linear),
        ("log", choices.log),
    ):
        for name in dict.fromkeys(names):
            if uses.setdefault(name, use) != use:
                raise FedGTError(f"column {name!r} cannot be {uses[name]} and {use}")


def _labels(table: TableFile, choices: ColumnChoices, cells: pa.ChunkedArray) -> tuple[str, ...]:
    distinct, _ = _distinct(as_text(table, choices.label, cells))
    place = f"{table.path}, column {choices.label!r}"
    if not distinct:
        raise FedGTError(f"{place}: no node has a label")
    if len(distinct) > choices.max_categories:
        raise FedGTError(
            f"{place}: {len(distinct)} distinct labels are more than "
            f"--max-categories {choices.max_categories}: is this the label column?"
        )
    return tuple(distinct)


def _column(
    table: TableFile, name: str, cells: pa.ChunkedArray, choices: ColumnChoices, notes: _Notes
) -> AnyColumn:
    if name in choices.numbers:
        return _numeric(table, name, cells, choices, notes)
    if name in choices.categorical:
        return _categorical(table, name, as_text(table, name, cells), choices, notes)
    if pa.types.is_temporal(cells.type):
        raise _OmittedError(_DATES)
    if not is_numeric(cells):
        try:
            cells = as_text(table, name, cells)
        except FedGTError:
            raise _OmittedError(f"it holds {cells.type}, neither text nor numbers") from None
    if cells.null_count == len(cells):
        raise _OmittedError("every cell is empty")
    if is_indicator(cells):
        return _indicator(table, name, cells, choices, notes)
    if is_numeric(cells) or is_numeric_text(table, cells):
        if not is_numeric(cells) and has_leading_zeros(cells):
            notes.add("numbers with leading zeros, as codes have: --categorical or --exclude", name)
        return _numeric(table, name, cells, choices, notes)
    if reason := numbers_with_marks(table, cells):
        raise _OmittedError(reason)
    if is_date_text(cells):
        raise _OmittedError(_DATES)
    if has_decimal_commas(cells):
        raise _OmittedError(_PRINTED if is_printed(cells) else _COMMAS)
    if reason := _not_categories(cells, choices.max_categories):
        if is_printed(cells):
            raise _OmittedError(_PRINTED)
        place = table.row_name(first_non_number(cells) or 0)
        raise _OmittedError(f"{reason}; --numeric if it should hold numbers ({place} does not)")
    return _categorical(table, name, cells, choices, notes)


def _indicator(
    table: TableFile, name: str, cells: pa.ChunkedArray, choices: ColumnChoices, notes: _Notes
) -> IndicatorColumn:
    values, missing = parse_indicators(table, name, cells)
    values = values[~missing]
    if 0 < min(values.sum(), len(values) - values.sum()) < _RARE:
        notes.add(f"0 or 1 stands in fewer than {_RARE} rows", name)
    return indicator_column(name, Figures.of(values).rounded(choices.digits))


def _numeric(
    table: TableFile, name: str, cells: pa.ChunkedArray, choices: ColumnChoices, notes: _Notes
) -> NumericColumn:
    values, missing = parse_numbers(table, name, cells)
    values = values[~missing]
    if not len(values):
        raise _OmittedError("every cell is empty")
    if values.min() == values.max():
        notes.add("every cell holds the same number, which is the mean", name)
    elif len(values) < _RARE:
        notes.add(f"the figures are of fewer than {_RARE} rows", name)
    elif (values % 1 == 0).all() and len(np.unique(values)) == len(values):
        notes.add("whole numbers, each in one row: --exclude if they are ids", name)
    figures = Figures.of(values)
    if not figures.is_finite:
        raise FedGTError(f"{table.path}, column {name!r}: the numbers are too large to scale")
    scale = "log" if name in choices.log else "linear" if name in choices.linear else None
    logs = None
    if values.min() >= 0:
        logs = Figures.of(np.log1p(values)).rounded(choices.digits)
    elif scale == "log":
        row = int(np.flatnonzero(~missing)[values.argmin()])
        message = f"{values.min():g} is negative: the column cannot be --log"
        raise table.cell_error(row, name, message)
    rounded = figures.rounded(choices.digits)
    return numeric_column(name, rounded, logs, scale=scale, clip=choices.clip)


def _categorical(
    table: TableFile, name: str, text: pa.ChunkedArray, choices: ColumnChoices, notes: _Notes
) -> CategoricalColumn:
    distinct, counts = _distinct(text)
    place = f"{table.path}, column {name!r}"
    if not distinct:
        raise FedGTError(f"{place}: every cell is empty, so there are no categories")
    if len(distinct) > choices.max_categories:
        raise FedGTError(
            f"{place}: {len(distinct)} distinct values are more than "
            f"--max-categories {choices.max_categories}: raise it or --exclude the column"
        )
    if any(count < _RARE for count in counts):
        notes.add(f"some categories stand in fewer than {_RARE} rows", name)
    return CategoricalColumn(name=name, categories=tuple(distinct))


def _not_categories(text: pa.ChunkedArray, limit: int) -> str | None:
    """Return why the values of a text column should not be published as categories, or None."""
    distinct, counts = _distinct(text)
    if len(distinct) > limit:
        return (
            f"it has {len(distinct)} distinct texts, more than --max-categories {limit}; "
            "raise that to include it if the values may be shared"
        )
    if sum(count == 1 for count in counts) > _UNIQUE_SHARE * sum(counts):
        return (
            "most of its texts stand in one row only, as names do; "
            "--categorical to include it if the values may be shared"
        )
    return None


def _distinct(text: pa.ChunkedArray) -> tuple[list[str], list[int]]:
    """Return the distinct values in reading order, and the number of rows of each."""
    counts: dict[str, int] = {}
    for entry in pc.value_counts(text.drop_null()).to_pylist():
        value = canonical_spelling(entry["values"])
        counts[value] = counts.get(value, 0) + entry["counts"]
    order = sorted(counts, key=value_order)
    return order, [counts[value] for value in order]
