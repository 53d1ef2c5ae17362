"""``fedgt launch``, ``resume``, ``runs``, ``follow``, ``stop``: runs at a coordinator."""

import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.output import Json, Quiet, print_json, print_note, print_table
from deploy.cli.run_follower import show_rounds
from deploy.engines.resume import resumable_config
from deploy.engines.run_list import check_not_under_way, list_runs
from deploy.engines.superlink_run import (
    ExitCode,
    RunOutcome,
    follow_run,
    read_settings,
    run_at_superlink,
    stop_run,
)
from deploy.flower.control import connect_control
from fedgt_server.earlier_run import JOURNAL, check_name_is_free
from fedgt_server.journal import Journal
from shared.config import RunConfig
from shared.errors import FedGTError

Kit = Annotated[Path, typer.Argument(help="The coordinator's kit.")]
KitOption = Annotated[Path, typer.Option("--kit", help="The coordinator's kit.")]
RunName = Annotated[
    str, typer.Argument(metavar="[RUN]", help="Its name; default: the one that is under way.")
]


def launch(
    kit: Kit = Path(),
    settings: Annotated[Path, typer.Option(help="Settings of the run (TOML).")] = Path("run.toml"),
    replace: Annotated[
        bool, typer.Option("--replace", help="Set an earlier run of the same name aside.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Train a deployed federation.

    The kit's 'run.sh' calls this; its SuperLink must be running here. Exit
    codes: 0 the run finished, 1 it failed, 2 it could not be started, 3 it
    gave up because there were too few institutions (resume continues it).
    """
    config = read_settings(settings)
    check_not_under_way(kit, config.run_name)
    if replace:
        config = config.model_copy(update={"replace": True})
    elif config.run_name and not (config.replace or config.resume):
        check_name_is_free(kit / config.results_dir / config.run_name)
    _run(kit, config, quiet=quiet)


def resume(
    kit: Kit = Path(),
    run: Annotated[str, typer.Option(help="Its run-name; default: the most recent run.")] = "",
    results: Annotated[
        Path | None, typer.Option(help="The results-dir; default: runs/, and that of run.toml.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Continue a run from its last checkpoint.

    After its SuperLink or ServerApp ended, with the settings that it was
    started with; exit codes as of 'launch'.
    """
    if not run and results is None:
        _check_last_is_here(kit)
    config = resumable_config(kit, run, results)
    check_not_under_way(kit, config.run_name)
    if not quiet:
        print_note(f"resuming the run '{config.run_name}'")
    _run(kit, config, quiet=quiet)


def runs(kit: Kit = Path(), json: Json = False) -> None:
    """List a coordinator's runs by name.

    With their state, rounds, and when they began; also without a SuperLink.
    """
    found = list_runs(kit)
    if json:
        print_json([asdict(run) for run in found])
        return
    rows = []
    for run in found:
        rounds, number = f"{run.rounds}/{run.planned or '?'}", str(run.number or "–")
        rows.append([run.name, run.state, rounds, run.started, number])
    print_table("Runs", ["name", "state", "rounds", "began (UTC)", "number"], rows)
    for run in found:
        if run.reason:
            print_note(f"{run.name}: {run.reason}")


def follow(run: RunName = "", kit: KitOption = Path()) -> None:
    """Show the log of a run until it is over.

    By its name; exit codes as of 'launch'.
    """
    outcome = _until_interrupted(run, kit, lambda: follow_run(kit, run, _print_log))
    _end(outcome)


def stop(run: RunName = "", kit: KitOption = Path()) -> None:
    """Stop a run; 'resume' continues it.

    By its name. Its last finished round stays.
    """
    stopped = stop_run(kit, run)
    name = stopped.name
    if Journal(kit / stopped.results_dir / name / JOURNAL).rounds():
        further = f"{_command('resume', kit)} --run {name} continues it"
    else:
        further = "no round was finished, so that './run.sh' begins it anew"
    print_note(f"the run '{name}' is stopped; {further}")


def _run(kit: Path, config: RunConfig, *, quiet: bool) -> None:
    with show_rounds(config.method, config.rounds, quiet=quiet) as show_rounds_of:

        def started(number: int, folder: Path) -> None:
            if not quiet:
                print_note(f"the run '{folder.name}' has the number {number}")
                page = f"fedgt watch {shlex.quote(str(folder))}"
                print_note(f"to look on, in another terminal: {page}")
            show_rounds_of(folder)

        on_log = _ignore if quiet else _print_log
        outcome = _until_interrupted(
            config.run_name, kit, lambda: run_at_superlink(kit, config, on_log, started)
        )
    _end(outcome)


def _until_interrupted(run: str, kit: Path, wait: Callable[[], RunOutcome]) -> RunOutcome:
    try:
        return wait()
    except KeyboardInterrupt:
        where = "" if kit == Path() else f" --kit {shlex.quote(str(kit))}"
        print(
            f"fedgt: the run goes on; 'fedgt stop {run}{where}' ends it, "
            f"'fedgt follow {run}{where}' shows it again",
            file=sys.stderr,
        )
        raise


def _end(outcome: RunOutcome) -> None:
    if outcome.exit_code is not ExitCode.finished:
        print(f"fedgt: {outcome.reason}", file=sys.stderr)
    raise typer.Exit(int(outcome.exit_code))


def _check_last_is_here(kit: Path) -> None:
    """Refuse to resume an earlier run where the last one's folder is gone."""
    try:
        with connect_control(kit) as client:
            known = client.runs()
    except FedGTError:  # there will be a better time to say that it does not answer
        return
    last = known[-1] if known else None
    if last is None or last.state.is_completed:
        return
    if not (kit / last.results_dir / last.name / JOURNAL).exists():
        raise FedGTError(
            f"the last run, '{last.name}', has no folder in {kit / last.results_dir}: it was moved "
            "or deleted; put it back, or name another run with --run"
        )


def _command(name: str, kit: Path) -> str:
    return f"fedgt {name}" + ("" if kit == Path() else f" {shlex.quote(str(kit))}")


def _print_log(text: str) -> None:
    print(text, end="", flush=True)


def _ignore(_: str) -> None:
    pass
