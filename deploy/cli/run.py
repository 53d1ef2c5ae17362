"""``fedgt run``: train a federation on this machine."""

import logging
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.output import Json, print_json, print_table, status_console
from deploy.cli.progress import round_progress
from deploy.cli.settings import Preset, Settings, parse_settings
from deploy.engines.in_process import (
    check_data,
    check_output_folder,
    run_in_process,
    with_output_paths,
)
from deploy.engines.simulation import run_simulation
from deploy.settings import resolve_settings
from fedgt_server.result import Result
from shared.config import RunConfig, Scalar


class Engine(StrEnum):
    """What carries the messages."""

    inprocess = "inprocess"
    flower = "flower"


def run(
    dataset: Annotated[str, typer.Option(help="A name of 'fedgt data list'.")] = "consortium",
    clients: Annotated[int, typer.Option(min=1, help="Simulated institutions.")] = 6,
    setting: Annotated[
        str, typer.Option(help="disjoint, overlap, louvain, unbalanced.")
    ] = "disjoint",
    method: Annotated[str, typer.Option(help="Which method to train.")] = "fedgt",
    rounds: Annotated[int | None, typer.Option(help="Rounds; default: as configured.")] = None,
    seed: Annotated[int, typer.Option(help="Of partition, split, model and sampling.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Results folder; default: runs/….")] = None,
    engine: Annotated[
        Engine, typer.Option(help="One process, or Flower's simulation.")
    ] = Engine.inprocess,
    preset: Preset = "default",
    data_dir: Annotated[Path | None, typer.Option(help="Where raw datasets lie.")] = None,
    settings: Settings = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    json: Json = False,
) -> None:
    """Train a federation of simulated institutions on this machine."""
    out = out or Path("runs") / f"{dataset}-{setting}-{clients}-{method}-seed{seed}"
    values: dict[str, Scalar] = {
        "dataset": dataset,
        "setting": setting,
        "method": method,
        "seed": seed,
        "data-dir": str(data_dir or ""),
        "resume": resume,
        **({"rounds": rounds} if rounds is not None else {}),
        **parse_settings(settings or []),
    }
    config = resolve_settings(with_output_paths(values, out, clients), preset=preset)
    check_output_folder(out, resume=resume)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    result = run_with_progress(config, clients, engine, show=not json)
    if json:
        print_json(result.model_dump() | {"out": str(out)})
    else:
        _show(result, out)


def run_with_progress(config: RunConfig, clients: int, engine: Engine, *, show: bool) -> Result:
    """Run, and show the progress on standard error."""
    check_data(config, clients)
    with round_progress(status_console, config.method, config.rounds, show=show) as observe:
        if engine is Engine.inprocess:
            return run_in_process(config, clients, observe)
        return run_simulation(config, clients, observe)


def _show(result: Result, out: Path) -> None:
    rows = [
        [name, percent(measured.val_accuracy), percent(measured.test_accuracy)]
        for name, measured in result.per_client.items()
    ]
    rows.append(["mean", percent(result.val_accuracy), percent(result.test_accuracy)])
    title = f"{result.method}, best round {result.best_round} of {result.rounds}"
    print_table(title, ["institution", "validation %", "test %"], rows)
    print(f"results: {out}")


def percent(share: float | None) -> str:
    """Format a share as a percentage of a table."""
    return "–" if share is None else f"{100 * share:.2f}"
