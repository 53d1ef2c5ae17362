"""Output of commands: tables for people, one JSON document for programs."""

import json
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]

# Progress and notes go to standard error, so that standard output holds the result alone.
status_console = Console(stderr=True)
console = Console()

_WIDE = Console(width=10_000)
_LABELS = 40  # characters of a row's label that are never cut


def print_json(document: Any) -> None:
    """Print ``document`` as the command's only output."""
    print(json.dumps(document, indent=2, ensure_ascii=False))


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under headings, the first column to the left, the others to the right.

    A table is never so narrow that numbers are cut: a terminal wraps its lines.
    """
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    labels = min(max((len(row[0]) for row in rows), default=0), _LABELS)
    for index, column in enumerate(columns):
        if index == 0:
            table.add_column(column, min_width=labels)
        else:
            table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*row)
    least = Measurement.get(_WIDE, _WIDE.options, table).minimum
    (console if least <= console.width else Console(width=least)).print(table)


def print_note(text: str) -> None:
    """Print a line for people on standard error."""
    status_console.print(text, markup=False, highlight=False, soft_wrap=True)


def fold(names: Sequence[str], shown: int = 5) -> str:
    """Return the first names, and how many there are besides."""
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
