"""Propose a schema from one institution's nodes, for people to review and then share.

The schema discloses the names of columns, rounded means and standard deviations, the distinct
values of columns that have few of them, and the labels; no rows. A text column with many values,
or whose values mostly occur once (names, addresses), is left out.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import ValidationError

from fedgt_client.data.columns import (
    as_text,
    canonical_spelling,
    first_non_number,
    is_numeric,
    is_numeric_text,
    parse_numbers,
)
from fedgt_client.data.schema import CategoricalColumn, NumericColumn, Schema, first_error
from fedgt_client.data.table_files import TableFile, open_table
from shared.errors import FedGTError

MAX_CATEGORIES = 100
# If more than this share of the cells occurs in one row only, a value identifies its row.
_UNIQUE_SHARE = 0.5
# A category in fewer rows than this may identify somebody: worth a look before sharing.
_RARE = 5
_STD_DIGITS = 3


@dataclass(frozen=True)
class ColumnChoices:
    """Uses of columns that the operator states; the others are inferred."""

    id: str
    label: str
    exclude: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    max_categories: int = MAX_CATEGORIES


@dataclass(frozen=True)
class Proposal:
    """Proposed schema, and what a person should know before sharing it."""

    schema: Schema
    omitted: dict[str, str]  # column -> why it is not in the schema
    notes: list[str]


def propose_schema(nodes: Path, choices: ColumnChoices) -> Proposal:
    """Infer a schema from a nodes file."""
    table = open_table(nodes)
    _check_choices(table, choices)
    unused = ("", choices.id, *choices.exclude)
    cells = table.read([name for name in table.names if name not in unused])
    labels = _labels(table, choices, cells.pop(choices.label))
    columns: list[NumericColumn | CategoricalColumn] = []
    omitted: dict[str, str] = {}
    notes: list[str] = []
    if len(labels) == 1:
        notes.append(f"{labels[0]!r} is the only label here: add those of other institutions")
    for name in list(cells):
        try:
            columns.append(_column(table, name, cells.pop(name), choices, notes))
        except _OmittedError as reason:
            omitted[name] = str(reason)
    if not columns:
        why = "".join(f"; {name!r}: {reason}" for name, reason in omitted.items())
        raise FedGTError(f"{nodes} has no column to make a feature of{why}")
    return Proposal(_schema(nodes, columns, labels), omitted, notes)


class _OmittedError(Exception):
    """Reason why a column is not proposed."""


def _schema(
    nodes: Path, columns: list[NumericColumn | CategoricalColumn], labels: tuple[str, ...]
) -> Schema:
    try:
        return Schema(columns=tuple(columns), labels=labels)
    except ValidationError as error:
        raise FedGTError(f"{nodes} gives no valid schema: {first_error(error)}") from None


def _check_choices(table: TableFile, choices: ColumnChoices) -> None:
    table.require_columns([choices.id, choices.label])
    table.require_columns([*choices.exclude, *choices.categorical, *choices.numeric])
    if choices.id == choices.label:
        raise FedGTError(f"column {choices.id!r} cannot be the id and the label column")
    uses = {choices.id: "the id column", choices.label: "the label column"}
    for use, names in (
        ("excluded", choices.exclude),
        ("categorical", choices.categorical),
        ("numeric", choices.numeric),
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
    table: TableFile, name: str, cells: pa.ChunkedArray, choices: ColumnChoices, notes: list[str]
) -> NumericColumn | CategoricalColumn:
    if name in choices.categorical:
        return _categorical(table, name, as_text(table, name, cells), choices, notes)
    if name in choices.numeric or is_numeric(cells):
        return _numeric(table, name, cells, notes)
    if pa.types.is_temporal(cells.type):
        raise _OmittedError("it holds dates or times: turn them into numbers to use them")
    try:
        text = as_text(table, name, cells)
    except FedGTError:
        raise _OmittedError(f"it holds {cells.type}, neither text nor numbers") from None
    if text.null_count == len(text):
        raise _OmittedError("every cell is empty")
    if is_numeric_text(text):
        return _numeric(table, name, text, notes)
    if reason := _not_categories(text, choices.max_categories):
        place = table.row_name(first_non_number(text) or 0)
        raise _OmittedError(f"{reason}; --numeric if it should hold numbers ({place} does not)")
    return _categorical(table, name, text, choices, notes)


def _numeric(
    table: TableFile, name: str, cells: pa.ChunkedArray, notes: list[str]
) -> NumericColumn:
    values, missing = parse_numbers(table, name, cells)
    values = values[~missing]
    if not len(values):
        raise _OmittedError("every cell is empty")
    if values.min() == values.max():
        notes.append(f"{name}: every cell holds the same number")
    elif len(values) < _RARE:
        notes.append(f"{name}: its mean and deviation are of {len(values)} rows only")
    mean, std = public_scaling(values)
    if not (math.isfinite(mean) and math.isfinite(std)):
        raise FedGTError(f"{table.path}, column {name!r}: the numbers are too large to scale")
    return NumericColumn(name=name, mean=mean, std=std)


def public_scaling(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return mean and standard deviation, rounded: exact ones would disclose more about the rows.

    The mean is rounded to about a hundredth of the deviation and not to significant digits:
    years or timestamps are far from 0.
    """
    if values.min() == values.max():
        std = 1.0
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            std = float(f"{values.std():.{_STD_DIGITS}g}")
    if not math.isfinite(std):
        return 0.0, std
    digits = _STD_DIGITS - 1 - math.floor(math.log10(std))
    # Adding 0.0 turns -0.0 into 0.0.
    return round(float(values.mean()), digits) + 0.0, std


def _categorical(
    table: TableFile, name: str, text: pa.ChunkedArray, choices: ColumnChoices, notes: list[str]
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
    if rare := sum(count < _RARE for count in counts):
        notes.append(
            f"{name}: {rare} of {len(distinct)} categories stand in fewer than {_RARE} rows"
        )
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
    order = sorted(counts, key=_sort_key)
    return order, [counts[value] for value in order]


def _sort_key(value: str) -> tuple[float, str]:
    """Return a sort key that puts whole numbers by size before words."""
    whole = value.removeprefix("-")
    return (float(value) if whole.isascii() and whole.isdigit() else math.inf, value)
