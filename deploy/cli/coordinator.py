"""``fedgt launch`` and ``fedgt resume``: runs at the coordinator of a federation."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.output import status_console
from deploy.engines.resume import resumable_config
from deploy.engines.superlink_run import ExitCode, read_settings, run_at_superlink
from shared.config import RunConfig

Kit = Annotated[Path, typer.Argument(help="The coordinator's kit.")]


def launch(
    kit: Kit = Path(),
    settings: Annotated[Path, typer.Option(help="Settings of the run (TOML).")] = Path("run.toml"),
) -> None:
    """Train the federation whose SuperLink runs here; 'run.sh' of the kit does it.

    Exit codes: 0 the run finished, 1 it failed, 2 it could not be started,
    3 it gave up because too few institutions were there (resume continues it).
    """
    _run(kit, read_settings(settings))


def resume(
    kit: Kit = Path(),
    run: Annotated[str, typer.Option(help="Its run-name; default: the most recent run.")] = "",
    results: Annotated[
        Path | None, typer.Option(help="The results-dir; default: runs/ in the kit.")
    ] = None,
) -> None:
    """Continue a run whose SuperLink or ServerApp ended, from its last checkpoint.

    With the settings that it was started with; exit codes as of 'launch'.
    """
    config = resumable_config(results or kit / "runs", run)
    status_console.print(f"resuming the run '{config.run_name}'", markup=False, highlight=False)
    _run(kit, config)


def _run(kit: Path, config: RunConfig) -> None:
    try:
        outcome = run_at_superlink(kit, config, _print_log)
    except KeyboardInterrupt:
        print("fedgt: the run goes on; './flwr.sh stop RUN fedgt' ends it", file=sys.stderr)
        raise
    if outcome.exit_code is not ExitCode.finished:
        print(f"fedgt: {outcome.reason}", file=sys.stderr)
    raise typer.Exit(int(outcome.exit_code))


def _print_log(text: str) -> None:
    print(text, end="", flush=True)
