"""Merge the schemas that several institutions propose, so that no one's figures stand for all.

Numbers of rows, means and deviations are pooled exactly, categories and labels united. A column of
0 and 1 at one institution and of other numbers at another is numeric. Only columns that all
proposals have are kept: import needs each of them at every institution.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedgt_client.data.column_figures import Figures, indicator_column, numeric_column, pooled
from fedgt_client.data.schema import (
    AnyColumn,
    CategoricalColumn,
    IndicatorColumn,
    NumericColumn,
    Schema,
    value_order,
)
from fedgt_client.data.schema_disclosure import disclosure
from shared.errors import FedGTError

Proposals = Mapping[str, Schema]  # by the name of their file


@dataclass(frozen=True)
class Merged:
    """Merged schema, and the columns that it does not have."""

    schema: Schema
    omitted: dict[str, str]  # column -> a file that does not have it


def merge_schemas(proposals: Proposals) -> Merged:
    """Merge at least two proposals.

    Columns are in the order of the first. Categories and labels are sorted unless all proposals
    agree on another order.
    """
    if len(proposals) < 2:
        raise FedGTError("merging needs two schemas or more")
    by_file = {
        file: {column.name: column for column in schema.columns}
        for file, schema in proposals.items()
    }
    names = dict.fromkeys(name for columns in by_file.values() for name in columns)
    omitted: dict[str, str] = {}
    merged: list[AnyColumn] = []
    for name in names:
        lacking = [file for file, columns in by_file.items() if name not in columns]
        if lacking:
            omitted[name] = lacking[0]
        else:
            merged.append(_column({file: columns[name] for file, columns in by_file.items()}))
    if not merged:
        raise FedGTError(f"no column is in all of {', '.join(proposals)}")
    labels = _united([schema.labels for schema in proposals.values()])
    description = f"Merged from {len(proposals)} proposals. {disclosure(merged, labels)}"
    return Merged(Schema(description=description, columns=tuple(merged), labels=labels), omitted)


def _column(found: Mapping[str, AnyColumn]) -> AnyColumn:
    """Merge one column, given by the file it is in."""
    (first_file, first), *_ = found.items()
    categorical = {file: c for file, c in found.items() if isinstance(c, CategoricalColumn)}
    if not categorical:
        return _numbers(found)
    if len(categorical) < len(found):
        other = next(file for file, c in found.items() if c.type != first.type)
        raise FedGTError(
            f"column {first.name!r} is {first.type} in {first_file} and {found[other].type} in "
            f"{other}: propose it with --categorical or --numeric {first.name} in both"
        )
    categories = _united([column.categories for column in categorical.values()])
    return CategoricalColumn(name=first.name, categories=categories)


def _numbers(found: Mapping[str, AnyColumn]) -> NumericColumn | IndicatorColumn:
    """Merge columns of numbers and indicators."""
    name = next(iter(found.values())).name
    figures = pooled([_figures(file, column) for file, column in found.items()])
    numeric = [column for column in found.values() if isinstance(column, NumericColumn)]
    if not numeric:
        return indicator_column(name, figures)
    logs = [_log_figures(column) for column in found.values()]
    known = [log for log in logs if log is not None]
    # Without the logarithms of one institution, which has negative numbers, there are none.
    log_figures = pooled(known) if len(known) == len(logs) else None
    scales = {column.scale if log_figures else "linear" for column in numeric}
    clip = max(math.inf if column.clip is None else column.clip for column in numeric)
    return numeric_column(
        name,
        figures,
        log_figures,
        # Where institutions differ, the rule decides by the figures of all.
        scale=scales.pop() if len(scales) == 1 else None,
        clip=clip if math.isfinite(clip) else None,
    )


def _figures(file: str, column: AnyColumn) -> Figures:
    assert not isinstance(column, CategoricalColumn)
    if column.rows is None:
        raise FedGTError(
            f"{file} does not say of how many rows the mean of {column.name!r} is: "
            "make it again with 'fedgt data schema', older versions do not merge"
        )
    if isinstance(column, IndicatorColumn):
        return _indicator_figures(column.rows, column.mean, one=1.0)
    return Figures(column.rows, column.mean, column.std)


def _log_figures(column: AnyColumn) -> Figures | None:
    """Return the figures of ln(1 + x); None where they are not known."""
    assert not isinstance(column, CategoricalColumn)
    assert column.rows is not None
    if isinstance(column, IndicatorColumn):
        return _indicator_figures(column.rows, column.mean, one=math.log(2.0))
    if column.log_mean is None or column.log_std is None:
        return None
    return Figures(column.rows, column.log_mean, column.log_std)


def _indicator_figures(rows: int, share: float, one: float) -> Figures:
    """Return the figures of a column with ``one`` in a share of its rows and 0 in the others."""
    return Figures(rows, share * one, math.sqrt(share * (1 - share)) * one)


def _united(parts: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return all names; in the order of the parts if they are the same, else sorted."""
    if len(set(parts)) == 1:
        return parts[0]
    return tuple(sorted({name for part in parts for name in part}, key=value_order))
