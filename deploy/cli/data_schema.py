"""``fedgt data schema``: propose a schema from tables, merge those of several institutions."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from deploy.cli.output import Json, fold, print_json, print_note, print_table
from deploy.cli.steps import show_steps
from fedgt_client.data.column_figures import CLIP, DIGITS
from fedgt_client.data.csv_table import CsvFormat
from fedgt_client.data.schema import AnyColumn, IndicatorColumn, NumericColumn, Schema
from fedgt_client.data.schema_merge import merge_schemas
from fedgt_client.data.schema_proposal import (
    MAX_CATEGORIES,
    ColumnChoices,
    Proposal,
    propose_schema,
)
from shared.errors import FedGTError

_DEFAULT = "propose"
_ALL_SHOWN = 15  # columns that are all listed; of more, the first few of each type
_FEW = 3


class _ProposeUnlessNamed(TyperGroup):
    """``schema --nodes FILE`` is ``schema propose --nodes FILE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] != "--help" and args[0] not in self.commands:
            args = [_DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_ProposeUnlessNamed,
    help="Propose the schema that all institutions share, or merge proposals.",
    no_args_is_help=True,
)

Out = Annotated[Path, typer.Option(help="Where to write the schema, as JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Columns = list[str] | None
EmptyCells = Annotated[
    list[str] | None,
    typer.Option(
        "--empty",
        help="A text that stands for an empty cell: NA, ?, NaN; may be repeated.",
    ),
]
DecimalComma = Annotated[
    bool,
    typer.Option("--decimal-comma", help="Numbers in CSV files are written as 1.234,5 or 1234,5."),
]


@app.command(_DEFAULT)
def propose(
    nodes: Annotated[Path, typer.Option(help="Nodes, one a row: .csv, .csv.gz or .parquet.")],
    id_column: Annotated[str, typer.Option("--id", help="Column of the nodes' ids.")],
    label: Annotated[str, typer.Option(help="Column of the labels.")],
    out: Out,
    exclude: Annotated[
        Columns, typer.Option(help="Leave this column out. This and the next may be repeated.")
    ] = None,
    categorical: Annotated[
        Columns, typer.Option(help="Take this column's values as categories, even if numbers.")
    ] = None,
    numeric: Annotated[
        Columns, typer.Option(help="Take this column as numbers, even if they are all 0 and 1.")
    ] = None,
    linear: Annotated[
        Columns, typer.Option(help="Take this column as numbers, and not their logarithm.")
    ] = None,
    log: Annotated[
        Columns, typer.Option(help="Take the logarithm of this column's numbers, ln(1 + x).")
    ] = None,
    empty: EmptyCells = None,
    decimal_comma: DecimalComma = False,
    clip: Annotated[
        float, typer.Option(min=1.0, help="Numbers are clipped at this many deviations.")
    ] = CLIP,
    round_to: Annotated[
        int, typer.Option("--round", min=1, max=15, help="Significant digits of all figures.")
    ] = DIGITS,
    max_categories: Annotated[
        int, typer.Option(min=1, help="Most distinct values a column may publish.")
    ] = MAX_CATEGORIES,
    force: Force = False,
    json: Json = False,
) -> None:
    """Propose a schema, from one institution's nodes.

    Columns of 0 and 1 stay as they are. Other numbers are scaled by mean and
    deviation; by those of ln(1 + x) where no number is negative and the
    deviation is more than twice the mean. The schema says what it discloses;
    it holds no rows. Text columns with many values, or values that mostly
    stand in one row, are left out. Review it before sharing it.
    """
    _check_target(out, [nodes], force=force)
    choices = ColumnChoices(
        id=id_column,
        label=label,
        exclude=tuple(exclude or ()),
        categorical=tuple(categorical or ()),
        numeric=tuple(numeric or ()),
        linear=tuple(linear or ()),
        log=tuple(log or ()),
        written=CsvFormat(tuple(empty or ()), decimal_comma),
        max_categories=max_categories,
        clip=clip,
        digits=round_to,
    )
    with show_steps(quiet=json) as step:
        step(f"reading {nodes.name}")
        proposal = propose_schema(nodes, choices)
    _save(proposal.schema, out)
    if json:
        print_json(
            {
                "file": str(out),
                "schema": proposal.schema.model_dump(mode="json", exclude_none=True),
                "omitted": proposal.omitted,
                "notes": proposal.notes,
            }
        )
    else:
        _print_schema("Proposed schema", proposal.schema, out)
        _print_omitted(proposal)
        for note, names in proposal.notes.items():
            print_note(f"{note}: {fold(names)}")
        print_note(f"{proposal.schema.description} Review the file before sharing it.")


@app.command()
def merge(
    schemas: Annotated[list[Path], typer.Argument(help="The proposals, two or more.")],
    out: Out,
    force: Force = False,
    json: Json = False,
) -> None:
    """Merge the proposals of several institutions into one schema.

    Means and deviations are pooled by numbers of rows, categories and labels
    united. A column that is 0 and 1 at one institution and other numbers at
    another becomes numeric; categories here and numbers there are an error.
    Columns that not all proposals have are left out.
    """
    _check_target(out, schemas, force=force)
    proposals = {str(file): Schema.load(file) for file in schemas}
    if len({file.resolve() for file in schemas}) < len(schemas):
        raise FedGTError(f"a schema is named twice: {fold([str(file) for file in schemas], 10)}")
    merged = merge_schemas(proposals)
    _save(merged.schema, out)
    if json:
        print_json(
            {
                "file": str(out),
                "schema": merged.schema.model_dump(mode="json", exclude_none=True),
                "omitted": merged.omitted,
            }
        )
        return
    _print_schema(f"Merged schema of {len(schemas)} proposals", merged.schema, out)
    if differing := _differing(proposals.values(), merged.schema):
        print_note(f"proposals differ; the merged schema has: {fold(differing)}")
    if merged.omitted:
        listed = [f"{name!r} (not in {file})" for name, file in merged.omitted.items()]
        print_note(f"left out, as not all proposals have them: {fold(listed)}")


def _differing(proposals: Iterable[Schema], merged: Schema) -> list[str]:
    """Return the columns whose type or scale is not the same in all proposals."""
    kinds: dict[str, set[str]] = {}
    for column in (column for schema in proposals for column in schema.columns):
        kinds.setdefault(column.name, set()).add(_kind(column))
    return [f"{c.name} ({_kind(c)})" for c in merged.columns if len(kinds[c.name]) > 1]


def _check_target(out: Path, inputs: Iterable[Path], *, force: bool) -> None:
    for file in inputs:
        if out.resolve() == file.resolve():
            raise FedGTError(f"{out} is read: choose another name for the schema")
    if out.exists() and not force:
        raise FedGTError(f"{out} exists already: choose another file or add --force")


def _save(schema: Schema, out: Path) -> None:
    try:
        schema.save(out)
    except OSError as error:
        raise FedGTError(f"{out} cannot be written: {error.strerror}") from None


def _print_schema(title: str, schema: Schema, out: Path) -> None:
    """Print all columns of a narrow table, and the first few of each type of a wide one."""
    rows = []
    wide = len(schema.columns) > _ALL_SHOWN
    columns = sorted(schema.columns, key=_kind) if wide else schema.columns
    for kind, group in groupby(columns, key=_kind):
        members = list(group)
        shown = members[:_FEW] if wide else members
        rows += [[escape(column.name), kind, _published(column)] for column in shown]
        if len(members) > len(shown):
            rows.append([f"... {len(members) - len(shown):,} more", kind, f"in {escape(out.name)}"])
    rows.append(["(label)", "", _count(len(schema.labels), "class", "classes")])
    rows.append([f"{len(schema.columns):,} columns", "", f"{len(schema.feature_names):,} features"])
    print_table(f"{title}, in {escape(str(out))}", ["column", "type", "what it publishes"], rows)


def _kind(column: AnyColumn) -> str:
    if isinstance(column, NumericColumn):
        return "numeric, log" if column.scale == "log" else "numeric"
    return column.type


def _published(column: AnyColumn) -> str:
    if isinstance(column, NumericColumn):
        return f"mean {column.mean:.4g}, std {column.std:.4g}"
    if isinstance(column, IndicatorColumn):
        return f"share of ones {column.mean:.3g}"
    return _count(len(column.categories), "category", "categories")


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _print_omitted(proposal: Proposal) -> None:
    for name, reason in list(proposal.omitted.items())[:_FEW]:
        print_note(f"left out {name!r}: {reason}")
    if others := [repr(name) for name in proposal.omitted][_FEW:]:
        print_note(f"left out too (--json has the reasons): {fold(others)}")
