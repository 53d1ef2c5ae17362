"""``fedgt doctor``: is this machine ready?"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from deploy.cli.output import Json, console, print_json
from deploy.doctor.report import examine

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "dim"}


def doctor(
    kit: Annotated[Path, typer.Argument(help="An institution's kit, or the coordinator's.")] = (
        Path()
    ),
    only: Annotated[str, typer.Option(metavar="NAME", help="Ask this question alone.")] = "",
    json: Json = False,
) -> None:
    """Check a kit and say how to fix it.

    At the coordinator: keys, certificates and their expiry, clock, disk, ports.

    One line for each, with the remedy; the exit code is 1 if any is red.
    """
    checks = examine(kit, only)
    healthy = all(check.state != "failed" for check in checks)
    if json:
        print_json({"ok": healthy, "checks": [asdict(check) for check in checks]})
    else:
        for check in checks:
            state = f"[{_COLOURS[check.state]}]{check.state:<8}[/]"
            remedy = f" → {escape(check.remedy)}" if check.remedy else ""
            line = f"{state} {check.name:<11} {escape(check.finding)}{remedy}"
            console.print(line, highlight=False, soft_wrap=True)
    raise typer.Exit(0 if healthy else 1)
