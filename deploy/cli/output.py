"""How commands speak: tables for people, one JSON document for programs."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]

# Progress and notes go to standard error, so that standard output holds the result alone.
notes = Console(stderr=True)
console = Console()


def print_json(document: Any) -> None:
    """Print ``document`` as the command's only output."""
    print(json.dumps(document, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings, the first column to the left, the others to the right."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)
