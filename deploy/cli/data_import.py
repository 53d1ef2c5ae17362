"""``fedgt data import``: an institution's own tables."""

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from deploy.cli.data_schema import DecimalComma, EmptyCells
from deploy.cli.output import Json, console, fold, print_json, print_note, print_table
from deploy.cli.steps import show_steps
from deploy.kit_owner import kit_owner
from fedgt_client.data.csv_table import CsvFormat
from fedgt_client.data.schema import Schema
from fedgt_client.data.table_import import Summary, Tables, check_target, import_tables

app = typer.Typer()


class OnDuplicate(StrEnum):
    """What to do with an id that occurs again."""

    error = "error"
    first = "first"


class OnUnknown(StrEnum):
    """What to do with a link to an id that is no node's."""

    error = "error"
    drop = "drop"


@app.command("import")
def import_command(
    nodes: Annotated[Path, typer.Option(help="Nodes, one a row: .csv, .csv.gz or .parquet.")],
    edges: Annotated[Path, typer.Option(help="Links, one a row: .csv, .csv.gz or .parquet.")],
    id_column: Annotated[
        str, typer.Option("--id", help="Column of the nodes' ids, text or whole numbers.")
    ],
    label: Annotated[str, typer.Option(help="Column of the labels; an empty cell is unlabelled.")],
    source: Annotated[str, typer.Option(help="Column of the edges file with one end's id.")],
    target: Annotated[str, typer.Option(help="Column of the edges file with the other end's id.")],
    schema: Annotated[Path, typer.Option(help="The schema all institutions share.")],
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    weight: Annotated[
        str | None,
        typer.Option(help="Column of the edges file with the links' weights. Else all are equal."),
    ] = None,
    empty: EmptyCells = None,
    decimal_comma: DecimalComma = False,
    split_column: Annotated[
        str | None,
        typer.Option(help="Column with train, val, test or nothing. Else 20/40/40 by the seed."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    directed: Annotated[
        bool, typer.Option("--directed", help="Keep the direction of links.")
    ] = False,
    on_duplicate: Annotated[
        OnDuplicate, typer.Option(help="An id that occurs again: an error, or keep the first row.")
    ] = OnDuplicate.error,
    on_unknown: Annotated[
        OnUnknown,
        typer.Option(help="A link to an id that is no node's: an error, or leave the link out."),
    ] = OnUnknown.error,
    institution: Annotated[
        str, typer.Option(help="Whose data it is. Default: whose kit --out is in, if it is in one.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing folder.")] = False,
    json: Json = False,
) -> None:
    """Turn an institution's tables into a graph folder, by the shared schema.

    Numeric columns are scaled and clipped, indicators stay 0 and 1, categories
    become one-hot. An empty number becomes the schema's mean, an empty
    category zeros, an empty label an unlabelled node; all are counted. 'nan'
    and 'inf' are errors. Ids are compared as text: 7 is "7", and "007" is
    another id. Weights of parallel links are added up.

    Errors name the file and the place: 'line 4 (data row 3)' in CSV, 'row 3'
    in Parquet. The folder stays at the institution.
    """
    check_target(out, (nodes, edges, schema), force=force)
    roles = (id_column, label, source, target, split_column, weight)
    tables = Tables(nodes, edges, *roles)
    agreed = Schema.load(schema)
    with show_steps(quiet=json) as step:
        imported = import_tables(
            tables,
            agreed,
            seed=seed,
            directed=directed,
            written=CsvFormat(tuple(empty or ()), decimal_comma),
            keep_first=on_duplicate is OnDuplicate.first,
            drop_unknown=on_unknown is OnUnknown.drop,
            institution=institution or kit_owner(out),
            progress=step,
        )
        step(f"writing {out}")
        imported.save(out, force=force)
    if json:
        print_json({"folder": str(out), **asdict(imported.summary)})
    else:
        _print_summary(imported.summary, out)


def _print_summary(summary: Summary, out: Path) -> None:
    split = ", ".join(f"{name} {count:,}" for name, count in summary.split.items())
    counts = {
        "nodes": summary.nodes,
        "rows of duplicate ids dropped": summary.duplicate_ids,
        "links": summary.links,
        ("parallel links added up" if summary.weighted else "duplicate links dropped"): (
            summary.duplicates
        ),
        "self-loops dropped": summary.self_loops,
        "links to unknown ids dropped": summary.unknown_links,
        "labelled": summary.labelled,
        "unlabelled": summary.unlabelled,
        "empty numbers set to the mean": summary.imputed,
        "numbers clipped": summary.clipped,
        "empty categories set to zeros": summary.missing_categories,
        "features": summary.features,
        "classes": summary.classes,
    }
    rows = [[name, f"{count:,}"] for name, count in counts.items()]
    kind = "directed" if summary.directed else "undirected"
    kind += ", weighted" if summary.weighted else ""
    print_table(
        f"Imported into {escape(str(out))} ({kind})", ["", "count"], [*rows, ["split", split]]
    )
    if summary.ignored_columns:
        print_note(f"not in the schema and not used: {fold(summary.ignored_columns, 10)}")
    if summary.clipped_columns:
        most = sorted(summary.clipped_columns.items(), key=lambda entry: -entry[1])
        print_note(f"clipped in: {fold([f'{name} ({count:,})' for name, count in most])}")
    if summary.split_without_label:
        print_note(
            f"named in the split column but without a label: {summary.split_without_label:,}"
        )
    if not summary.split["train"]:
        print_note("no node is in the training split: this institution cannot train")
    if not summary.institution:
        print_note(
            "the folder is in no kit: by --institution NAME the doctor could tell it from others'"
        )
    whose = f"of {escape(summary.institution)}, " if summary.institution else ""
    digests = f"data {whose}{summary.graph_digest[:12]}, schema {summary.schema_digest[:12]}"
    console.print(digests, style="dim", highlight=False)
