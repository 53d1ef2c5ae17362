"""``fedgt demo``: six banks learn, first each alone, then together."""

import logging
import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from deploy.cli.output import Json, console, notes, print_json, print_table
from deploy.cli.run import Engine, percent, run_with_progress
from deploy.run import placed
from shared.config import RunConfig, Scalar
from shared.files import write_json

_CLIENTS = 6
_OUT = Path("runs") / "demo"
# The baseline needs no federation, so it needs no Flower either.
_ENGINES = {"local": Engine.inprocess, "fedgt": Engine.flower}


def demo(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each of the two runs.")] = 40,
    seed: Annotated[int, typer.Option(min=0, help="Of data, model and sampling.")] = 0,
    json: Json = False,
) -> None:
    """Train six simulated banks each alone and with FedGT through Flower, and compare."""
    started = time.monotonic()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
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
        config = RunConfig.build(placed(values, out, _CLIENTS))
        if method == "fedgt" and not json:
            notes.print("starting Flower's simulation, which takes about half a minute")
        results[method] = run_with_progress(config, _CLIENTS, engine, show=not json)
    summary = _summary(results) | {"seconds": time.monotonic() - started, "out": str(_OUT)}
    write_json(_OUT / "demo.json", summary)
    if json:
        print_json(summary)
    else:
        _show(summary)


def _summary(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Test accuracies by method, in the mean and by institution."""
    names = results["fedgt"]["per_client"]
    return {
        "test_accuracy": {method: result["test_accuracy"] for method, result in results.items()},
        "institutions": {
            name: {
                method: result["per_client"].get(name, {}).get("test_accuracy")
                for method, result in results.items()
            }
            for name in names
        },
        "rounds": results["fedgt"]["rounds"],
    }


def _show(summary: dict[str, Any]) -> None:
    accuracies = {**summary["institutions"], "mean": summary["test_accuracy"]}
    rows = [[name, percent(by["local"]), percent(by["fedgt"])] for name, by in accuracies.items()]
    title = f"Test accuracy after {summary['rounds']} rounds"
    print_table(title, ["institution", "local only %", "FedGT %"], rows)
    console.print(f"results: {summary['out']}", soft_wrap=True, highlight=False)
