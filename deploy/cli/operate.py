"""``fedgt status``, ``backup``, ``restore``, ``clean``: a kit over the months."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from deploy.cli.output import Json, console, print_json, print_note
from deploy.doctor.kit import CoordinatorKit
from deploy.operate.backup import back_up
from deploy.operate.backup import restore as restore_backup
from deploy.operate.clean import delete as delete_leftovers
from deploy.operate.clean import leftovers
from deploy.operate.status import Status, prometheus_text
from shared.files import atomic_file

Kit = Annotated[Path, typer.Argument(help="A kit: an institution's, or the coordinator's.")]

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "dim"}
_MIB = 1 << 20


def status(
    kit: Kit = Path(),
    prometheus: Annotated[
        Path | None,
        typer.Option(help="Write numbers for Prometheus to this file; '-' prints them."),
    ] = None,
    json: Json = False,
) -> None:
    """Show a kit's connection, round, disk, budget.

    The exit code is 0 where all is well, 1 for a warning, 2 for a failure.
    The file for Prometheus is that of node_exporter's textfile collector.
    """
    found = _status(kit)
    text = prometheus_text(found.metrics)
    if prometheus is not None and str(prometheus) != "-":
        with atomic_file(prometheus, mode=0o644) as staging:
            staging.write_text(text)
    if str(prometheus) == "-":
        print(text, end="")
    elif json:
        lines = [asdict(line) for line in found.lines]
        print_json({"code": found.exit_code, "lines": lines})
    else:
        for line in found.lines:
            remedy = f" → {escape(line.remedy)}" if line.remedy else ""
            shown = f"[{_COLOURS[line.state]}]{line.state:<8}[/] {line.name:<11} "
            shown += escape(line.finding) + remedy
            console.print(shown, highlight=False, soft_wrap=True)
    raise typer.Exit(found.exit_code)


def _status(kit: Path) -> Status:
    # Each side imports what the other's machine need not have.
    if CoordinatorKit.is_in(kit):
        from deploy.operate.coordinator_status import coordinator_status

        return coordinator_status(kit)
    from deploy.operate.institution_status import institution_status

    return institution_status(kit)


def backup(
    kit: Kit = Path(),
    out: Annotated[Path, typer.Option(help="The file to write (.tar.gz).")] = Path("backup.tar.gz"),
    data: Annotated[bool, typer.Option(help="With the institution's data folder.")] = True,
    json: Json = False,
) -> None:
    """Save a kit, with its keys, in one file.

    It may be in use meanwhile. The file is as secret as the kit: it holds the
    private key, and an institution's data unless '--no-data' leaves it out.
    """
    made = back_up(kit, out, with_data=data)
    if json:
        print_json({"file": str(out), **made.model_dump(exclude={"files"})})
        return
    size = out.stat().st_size / _MIB
    print_note(f"{out}: {made.name}, {len(made.files)} files, {size:.1f} MiB; keep it secret")


def restore(
    source: Annotated[Path, typer.Argument(help="The file that 'fedgt backup' wrote.")],
    folder: Annotated[Path, typer.Argument(help="An empty folder, or one to make.")],
) -> None:
    """Restore a kit from a backup.

    Every file is compared with what was backed up before any is put in place.
    """
    made = restore_backup(source, folder)
    print_note(f"{folder}: {made.name} as of {made.time}, {len(made.files)} files")
    setting = "node.toml" if made.kind == "institution" else "results-dir in run.toml"
    for place, before in made.outside.items():
        print_note(f"{place} was in {before} and is in {folder / place} now: see {setting}")
    if made.kind == "institution":
        print_note(
            "what it has uploaded since the backup is not in its ledger; a run that went on since "
            "asks for 'fedgt rejoin'"
        )


def clean(
    kit: Kit = Path(),
    days: Annotated[float, typer.Option(min=0, help="What is not used for longer is old.")] = 30,
    delete: Annotated[
        bool, typer.Option("--delete/--dry-run", help="Delete it, or only show it.")
    ] = False,
    json: Json = False,
) -> None:
    """Show or delete what a kit no longer needs.

    Never keys, settings, records or ledgers; journals, results and best models only of runs that
    were set aside for another one of their name.
    """
    found = leftovers(kit, days)
    if delete:
        delete_leftovers(found)
    if json:
        shown = [{"path": str(one.path), "why": one.why, "bytes": one.size} for one in found]
        print_json({"deleted": delete, "leftovers": shown})
        return
    for one in found:
        # Not a table: it would shorten paths on a narrow terminal.
        print(f"{one.size / _MIB:8.1f} MiB  {one.path}: {one.why}")
    total = sum(one.size for one in found) / _MIB
    what = "deleted" if delete else "could be deleted: 'fedgt clean --delete' does it"
    print_note(f"{total:.1f} MiB {what}" if found else "there is nothing to delete")
