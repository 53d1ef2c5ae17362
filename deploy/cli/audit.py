"""``fedgt audit``: what a run's uploads give away, by attacks on a rehearsal of it."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.audit.record import Audit, columns, markdown, read_audit, rows, write_audit
from deploy.audit.run import AS_CONFIGURED, VARIANTS, attack, count_institutions, run_settings
from deploy.cli.output import Json, print_json, print_table, status_console
from deploy.cli.progress import round_progress
from deploy.cli.settings import Settings, parse_settings
from fedgt_server.report.runs import find_run
from shared.config import Scalar


def audit(
    run: Annotated[Path, typer.Argument(help="The folder of a run that 'fedgt run' made.")],
    compare: Annotated[
        bool, typer.Option("--compare", help="With other privacy settings, too.")
    ] = False,
    rounds: Annotated[int | None, typer.Option(help="Rounds; default: as the run.")] = None,
    settings: Settings = None,
    table: Annotated[
        bool, typer.Option("--table", help="Print the last audit as Markdown, and run nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Attack a run's uploads as a coordinator.

    The run is played again in this process with the data that it had, and what is guessed of
    labels, members and features is compared with the truth. The result is audit.json in the
    folder.
    """
    if table:
        print(markdown(read_audit(run)), end="")
        return
    run = find_run(run).folder
    values = run_settings(run) | parse_settings(settings or [])
    if rounds is not None:
        values["rounds"] = rounds
    variants: dict[str, dict[str, Scalar]] = {AS_CONFIGURED: {}, **(VARIANTS if compare else {})}
    found = []
    for name, changed in variants.items():
        with round_progress(status_console, name, int(values["rounds"]), show=not json) as observe:
            found.append(attack(values, count_institutions(run), name, changed, observe))
        record = Audit(
            dataset=str(values["dataset"]), setting=str(values["setting"]), found=tuple(found)
        )
        write_audit(run, record)
    if json:
        print_json(record.model_dump(mode="json"))
    else:
        print_table("What uploads give away", columns(record), rows(record))
