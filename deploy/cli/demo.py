"""``fedgt demo``: banks learn, first each alone, then together."""

import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from deploy.cli.output import Json, Quiet, console, print_json, print_table, status_console
from deploy.cli.progress import log_warnings, round_progress
from deploy.cli.report import FILE, write_report
from deploy.cli.run import Engine, percent, run_with_progress
from deploy.engines.in_process import with_output_paths
from deploy.engines.local_deployment import (
    DATA_NOTE,
    share_exact_metrics,
    three_banks,
    train_alone,
    train_together,
)
from deploy.engines.local_federation import LocalFederation
from deploy.engines.processes import marked_processes
from deploy.engines.simulation import INSTALL_SIMULATION, is_simulation_installed
from deploy.settings import resolve_settings
from fedgt_server.result import Result
from shared.config import Scalar
from shared.files import write_json

_CLIENTS = 6
_ROUNDS = 40
_DEPLOYED_ROUNDS = 20
_OUT = Path("runs") / "demo"
# The baseline needs no federation, so it needs no Flower either.
_ENGINES = {"local": Engine.inprocess, "fedgt": Engine.flower}


def demo(
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1, show_default=False, help="Of each of the two runs. [default: 40; --deploy: 20]"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of data, model and sampling.")] = 0,
    deploy: Annotated[
        bool,
        typer.Option(
            "--deploy", help="A coordinator and three banks as processes, with TLS and keys."
        ),
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train banks alone and together, and compare.

    Six banks in Flower's simulation, or with --deploy three that are started
    and connected as on machines of their own. Nothing is left running.
    """
    started = time.monotonic()
    log_warnings(status_console)
    show = not (json or quiet)
    if deploy:
        out = _OUT.with_name("demo-deploy")
        results, run = _run_deployed(out, rounds or _DEPLOYED_ROUNDS, seed, show=show)
    else:
        out, run = _OUT, _OUT / "fedgt"
        results = _run_simulated(rounds or _ROUNDS, seed, show=show)
    summary = _summary(results) | {"seconds": time.monotonic() - started, "out": str(out)}
    write_json(out / "demo.json", summary)
    summary["page"] = str(write_report(run, out / FILE, out / "local"))
    if json:
        print_json(summary)
    else:
        _show(summary)


def _run_simulated(rounds: int, seed: int, *, show: bool) -> dict[str, Result]:
    results = {}
    for method, engine in _ENGINES.items():
        out = _OUT / method
        shutil.rmtree(out, ignore_errors=True)  # of an earlier demo
        values: dict[str, Scalar] = {
            "dataset": "consortium",
            "method": method,
            "rounds": rounds,
            "seed": seed,
        }
        config = resolve_settings(with_output_paths(values, out, _CLIENTS))
        if engine is Engine.flower:
            engine = _available_engine(show=show)
        results[method] = run_with_progress(config, _CLIENTS, engine, show=show)
    return results


def _available_engine(*, show: bool) -> Engine:
    """Return Flower's simulation, or one process, with the same result, where Ray is missing."""
    if is_simulation_installed():
        text = "starting Flower's simulation, which takes about half a minute"
    else:
        text = f"running in one process; for Flower's simulation: {INSTALL_SIMULATION}"
    if show:
        status_console.print(text, soft_wrap=True, highlight=False, markup=False)
    return Engine.flower if is_simulation_installed() else Engine.inprocess


def _run_deployed(
    out: Path, rounds: int, seed: int, *, show: bool
) -> tuple[dict[str, Result], Path]:
    """Return the results, and the folder of the run at the coordinator."""
    for name in ("federation", "local"):
        shutil.rmtree(out / name, ignore_errors=True)  # of an earlier demo
    values: dict[str, Scalar] = {"rounds": rounds, "seed": seed}
    if show:
        status_console.print(DATA_NOTE, soft_wrap=True, highlight=False)
    with marked_processes() as mark:
        federation = LocalFederation(out / "federation", three_banks(seed), mark)
        share_exact_metrics(federation)
        with round_progress(status_console, "local", rounds, show=show) as observe:
            local = train_alone(federation, out / "local", values, observe)
        if show:
            text = "starting a coordinator and three institutions, which takes about a minute"
            status_console.print(text, highlight=False)
        federation.start()
        with round_progress(status_console, "fedgt", rounds, show=show) as observe:
            together = train_together(federation, values, observe)
    return {"local": local, "fedgt": together}, federation.run_folder("fedgt")


def _summary(results: dict[str, Result]) -> dict[str, Any]:
    """Return test accuracies by method, in the mean and by institution."""
    names = results["fedgt"].per_client
    return {
        "test_accuracy": {method: result.test_accuracy for method, result in results.items()},
        "institutions": {
            name: {
                method: result.per_client[name].test_accuracy if name in result.per_client else None
                for method, result in results.items()
            }
            for name in names
        },
        "rounds": results["fedgt"].rounds,
    }


def _show(summary: dict[str, Any]) -> None:
    accuracies = {**summary["institutions"], "mean": summary["test_accuracy"]}
    rows = [[name, percent(by["local"]), percent(by["fedgt"])] for name, by in accuracies.items()]
    title = f"Test accuracy after {summary['rounds']} rounds"
    print_table(title, ["institution", "local only %", "FedGT %"], rows)
    for name, place in (("results", summary["out"]), ("page", summary["page"])):
        console.print(f"{name}: {place}", soft_wrap=True, highlight=False, markup=False)
