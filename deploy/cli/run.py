"""``fedgt run``: train a federation on this machine."""

import logging
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from click.core import ParameterSource

from deploy.cli.output import Json, Quiet, print_json, print_note, print_table, status_console
from deploy.cli.progress import log_warnings, round_progress
from deploy.cli.settings import Preset, Settings, parse_settings
from deploy.engines.in_process import (
    check_data,
    check_output_folder,
    run_in_process,
    with_output_paths,
)
from deploy.engines.simulation import run_simulation
from deploy.settings import resolve_settings
from fedgt_client.data.own_folders import (
    OWN,
    check_institutions,
    name_institutions,
    write_institutions,
)
from fedgt_client.policy import Policy
from fedgt_server.events import Accuracies
from fedgt_server.methods import method_info
from fedgt_server.result import Result, read_result
from shared.config import RunConfig, Scalar
from shared.errors import FedGTError
from shared.files import write_json

_logger = logging.getLogger(__name__)


class Engine(StrEnum):
    """What carries the messages."""

    inprocess = "inprocess"
    flower = "flower"


def run(
    ctx: typer.Context,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FOLDER...",
            help="Own graphs, of 'fedgt data import', instead of a dataset: one institution each, "
            "named as its folder.",
        ),
    ] = None,
    # What follows the first folder of --data, as in --data bank-a/ bank-b/ bank-c/.
    more: Annotated[list[Path] | None, typer.Argument(hidden=True)] = None,
    dataset: Annotated[str, typer.Option(help="A name of 'fedgt data list'.")] = "consortium",
    clients: Annotated[int, typer.Option(min=1, help="Simulated institutions.")] = 6,
    setting: Annotated[
        str, typer.Option(help="disjoint, overlap, louvain, unbalanced.")
    ] = "disjoint",
    method: Annotated[str, typer.Option(help="Which method to train.")] = "fedgt",
    compare: Annotated[
        str, typer.Option(metavar="METHOD,...", help="Train these methods too, and compare.")
    ] = "",
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
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train a federation on this machine.

    Of a dataset that is divided among them, or of own graphs, as a rehearsal.
    The folder of results has each institution's best model.
    """
    own = _own_folders(ctx, data or [], more or [])
    methods = _methods(method, compare)
    clients = len(own) or clients
    place = f"{OWN}-{clients}" if own else f"{dataset}-{setting}-{clients}"
    out = out or Path("runs") / f"{place}-{'-'.join(methods)}-seed{seed}"
    values: dict[str, Scalar] = {
        "dataset": OWN if own else dataset,
        "setting": setting,
        "seed": seed,
        "data-dir": str(out if own else data_dir or ""),
        **({"rounds": rounds} if rounds is not None else {}),
        **parse_settings(settings or []),
    }
    folders = {name: out / name if compare else out for name in methods}
    configs = {
        name: resolve_settings(
            with_output_paths(
                # A comparison may have ended before this method began.
                values | {"method": name, "resume": resume and folder.exists()},
                folder,
                clients,
            ),
            preset=preset,
        )
        for name, folder in folders.items()
    }
    check_output_folder(out, resume=resume)
    if own:
        check_institutions(own)
        write_institutions(out, own)
        _note_refusals(configs)
    log_warnings(status_console)
    results = {}
    for name, config in configs.items():
        done = read_result(folders[name]) if resume and compare else None
        results[name] = done or run_with_progress(config, clients, engine, show=not (json or quiet))
    if compare:
        _show_comparison(results, out, json=json)
    elif json:
        print_json(results[method].model_dump() | {"out": str(out)})
    else:
        _show(results[method], out)


def _note_refusals(configs: dict[str, RunConfig]) -> None:
    """Say what a rehearsal does that institutions would not do with each other."""
    for name, config in configs.items():
        if problems := Policy().problems(config, method_info(name).uploads):
            print_note(f"by default an institution refuses {name} so: {problems[0]}")


def _own_folders(ctx: typer.Context, data: list[Path], more: list[Path]) -> dict[str, Path]:
    """Return the folders of --data by name; empty without the option."""
    if more and not data:
        raise FedGTError(f"'{more[0]}' is not an option: name folders after --data")
    if data:
        for name in ("dataset", "clients", "setting", "data_dir"):
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                option = name.replace("_", "-")
                raise FedGTError(f"--{option} is of named datasets, --data of own graphs: not both")
    return name_institutions([*data, *more])


def _methods(method: str, compare: str) -> list[str]:
    """Return the methods to train, each once."""
    others = [name.strip() for name in compare.split(",")] if compare else []
    if "" in others:
        raise FedGTError(f"--compare is {compare!r}: expected methods, separated by commas")
    return list(dict.fromkeys([method, *others]))


def run_with_progress(config: RunConfig, clients: int, engine: Engine, *, show: bool) -> Result:
    """Run, and show the progress on standard error."""
    check_data(config, clients)
    with round_progress(status_console, config.method, config.rounds, show=show) as observe:
        if engine is Engine.inprocess:
            return run_in_process(config, clients, observe)
        return run_simulation(config, clients, observe)


def _show(result: Result, out: Path) -> None:
    measured: dict[str, Accuracies | Result] = {**result.per_client, "mean": result}
    rows = [
        [
            name,
            percent(at.val_accuracy),
            percent(at.test_accuracy),
            percent(at.test_majority_share),
            percent(at.test_balanced_accuracy),
        ]
        for name, at in measured.items()
    ]
    title = f"{result.method}, best round {result.best_round} of {result.rounds}"
    columns = ["institution", "validation %", "test %", "largest class %", "balanced %"]
    print_table(title, columns, rows)
    for name, why in result.missing.items():
        print_note(f"the means are without {name}: it {why}")
    for warning in result.warnings:
        _logger.warning("%s", warning)  # shown once: a run that was just played has logged it
    print(f"results: {out}")


def _show_comparison(results: dict[str, Result], out: Path, *, json: bool) -> None:
    """Write, and print, what every institution reaches with every method."""
    write_json(out / "comparison.json", {name: r.model_dump() for name, r in results.items()})
    if json:
        print_json(
            {"out": str(out), "methods": {name: r.model_dump() for name, r in results.items()}}
        )
        return
    every = list(results.values())
    institutions = sorted({name for result in results.values() for name in result.per_client})
    for title, metric in (
        ("Test accuracy, %", "test_accuracy"),
        ("Mean recall, %", "test_balanced_accuracy"),
    ):
        rows = [
            [name, *(percent(getattr(at.per_client.get(name), metric, None)) for at in every)]
            for name in institutions
        ]
        rows.append(["mean", *(percent(getattr(at, metric)) for at in every)])
        columns = [*results]
        if metric == "test_accuracy":  # as high without any model
            columns.append("largest class")
            for row, name in zip(rows, [*institutions, None], strict=True):
                row.append(percent(_largest_class(every, name)))
        print_table(title, ["institution", *columns], rows)
    print(f"results: {out}")


def _largest_class(results: Sequence[Result], institution: str | None) -> float | None:
    """Return the share of the largest class among the test nodes; None: mean over institutions."""
    for result in results:
        measured = result if institution is None else result.per_client.get(institution)
        if measured is not None and measured.test_majority_share is not None:
            return measured.test_majority_share
    return None


def percent(share: float | None) -> str:
    """Format a share as a percentage of a table."""
    return "–" if share is None else f"{100 * share:.2f}"
