"""``fedgt data schema`` and ``fedgt data import``: an institution's own tables."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from deploy.cli.output import Json, console, print_json, print_table, status_console
from fedgt_client.data.schema import NumericColumn, Schema
from fedgt_client.data.schema_proposal import (
    MAX_CATEGORIES,
    ColumnChoices,
    Proposal,
    propose_schema,
)
from fedgt_client.data.table_import import Summary, Tables, check_target, import_tables
from shared.errors import FedGTError

app = typer.Typer()

Nodes = Annotated[Path, typer.Option(help="Nodes, one a row: a .csv or .parquet file.")]
Id = Annotated[str, typer.Option("--id", help="Column of the nodes' ids, text or whole numbers.")]
Label = Annotated[str, typer.Option(help="Column of the labels; an empty cell is unlabelled.")]


@app.command("schema")
def schema_command(
    nodes: Nodes,
    id_column: Id,
    label: Label,
    out: Annotated[Path, typer.Option(help="Where to write the schema, as JSON.")],
    exclude: Annotated[
        list[str] | None, typer.Option(help="Leave this column out. May be repeated.")
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(help="Take this column's values as categories, even if they are numbers."),
    ] = None,
    numeric: Annotated[
        list[str] | None,
        typer.Option(help="Take this column as numbers; a cell that is none is an error."),
    ] = None,
    max_categories: Annotated[
        int, typer.Option(min=1, help="Most distinct values a column may publish.")
    ] = MAX_CATEGORIES,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    json: Json = False,
) -> None:
    """Propose the schema that all institutions share, from one institution's nodes.

    It holds column names, rounded means and deviations, categories and
    labels, and no rows. Text columns with many values, or values that mostly
    stand in one row, are left out. Review it before sharing, and add the
    categories and labels of other institutions.
    """
    if out.exists() and not force:
        raise FedGTError(f"{out} exists already: choose another file or add --force")
    if out.resolve() == nodes.resolve():
        raise FedGTError(f"{out} is the nodes file: choose another name for the schema")
    choices = ColumnChoices(
        id=id_column,
        label=label,
        exclude=tuple(exclude or ()),
        categorical=tuple(categorical or ()),
        numeric=tuple(numeric or ()),
        max_categories=max_categories,
    )
    with _steps(quiet=json) as step:
        step(f"reading {nodes.name}")
        proposal = propose_schema(nodes, choices)
    try:
        proposal.schema.save(out)
    except OSError as error:
        raise FedGTError(f"{out} cannot be written: {error.strerror}") from None
    if json:
        print_json(
            {
                "file": str(out),
                "schema": proposal.schema.model_dump(mode="json"),
                "omitted": proposal.omitted,
                "notes": proposal.notes,
            }
        )
    else:
        _print_proposal(proposal, out)


@app.command("import")
def import_command(
    nodes: Nodes,
    edges: Annotated[Path, typer.Option(help="Links, one a row: a .csv or .parquet file.")],
    id_column: Id,
    label: Label,
    source: Annotated[str, typer.Option(help="Column of the edges file with one end's id.")],
    target: Annotated[str, typer.Option(help="Column of the edges file with the other end's id.")],
    schema: Annotated[Path, typer.Option(help="The schema all institutions share.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    split_column: Annotated[
        str | None,
        typer.Option(help="Column with train, val, test or nothing. Else 20/40/40 by the seed."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    directed: Annotated[
        bool, typer.Option("--directed", help="Keep the direction of links.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing folder.")] = False,
    json: Json = False,
) -> None:
    """Turn an institution's tables into a graph folder, by the shared schema.

    Numeric columns are scaled and categorical ones one-hot. An empty number
    becomes the schema's mean, an empty category zeros, an empty label an
    unlabelled node; all are counted. 'nan' and 'inf' are errors. Ids are
    compared as text: 7 is "7", and "007" is another id.

    Errors name the file and the place: 'line 4 (data row 3)' in CSV, 'row 3'
    in Parquet. The folder stays at the institution.
    """
    check_target(out, (nodes, edges, schema), force=force)
    tables = Tables(nodes, edges, id_column, label, source, target, split_column)
    agreed = Schema.load(schema)
    with _steps(quiet=json) as step:
        imported = import_tables(tables, agreed, seed=seed, directed=directed, progress=step)
        step(f"writing {out}")
        imported.save(out, force=force)
    if json:
        print_json({"folder": str(out), **asdict(imported.summary)})
    else:
        _print_summary(imported.summary, out)


@contextmanager
def _steps(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show the step under way and the time it has taken, to people only."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    shown = status_console.is_terminal and not quiet
    with Progress(*columns, console=status_console, transient=True, disable=not shown) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda step: progress.update(task, description=step)


def _print_proposal(proposal: Proposal, out: Path) -> None:
    rows = []
    for column in proposal.schema.columns:
        if isinstance(column, NumericColumn):
            rows.append(
                [escape(column.name), "numeric", f"mean {column.mean:g}, std {column.std:g}"]
            )
        else:
            rows.append(
                [escape(column.name), "categorical", f"{len(column.categories)} categories"]
            )
    rows.append(["(label)", "", f"{len(proposal.schema.labels)} classes"])
    print_table(
        f"Proposed schema, in {escape(str(out))}", ["column", "type", "what it publishes"], rows
    )
    for name, reason in proposal.omitted.items():
        _print_note(f"left out {name!r}: {reason}")
    for note in proposal.notes:
        _print_note(note)
    _print_note(
        "review the file before sharing it: it shows the categories, labels and scaling above"
    )


def _print_summary(summary: Summary, out: Path) -> None:
    split = ", ".join(f"{name} {count:,}" for name, count in summary.split.items())
    counts = {
        "nodes": summary.nodes,
        "links": summary.links,
        "duplicate links dropped": summary.duplicates,
        "self-loops dropped": summary.self_loops,
        "labelled": summary.labelled,
        "unlabelled": summary.unlabelled,
        "empty numbers set to the mean": summary.imputed,
        "empty categories set to zeros": summary.missing_categories,
        "features": summary.features,
        "classes": summary.classes,
    }
    rows = [[name, f"{count:,}"] for name, count in counts.items()]
    kind = "directed" if summary.directed else "undirected"
    print_table(
        f"Imported into {escape(str(out))} ({kind})", ["", "count"], [*rows, ["split", split]]
    )
    if summary.ignored_columns:
        _print_note(f"not in the schema and not used: {', '.join(summary.ignored_columns)}")
    if summary.split_without_label:
        _print_note(
            f"named in the split column but without a label: {summary.split_without_label:,}"
        )
    if not summary.split["train"]:
        _print_note("no node is in the training split: this institution cannot train")
    console.print(f"schema {summary.schema_digest[:12]}", style="dim", highlight=False)


def _print_note(text: str) -> None:
    status_console.print(text, markup=False, highlight=False, soft_wrap=True)
