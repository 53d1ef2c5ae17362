"""``fedgt track``: a run's numbers in TensorBoard or MLflow."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from deploy.tracking import Tracker, mlflow, tensorboard, track_run
from fedgt_server.events import EndEvent, FailedEvent
from fedgt_server.journal import Journal
from fedgt_server.report.runs import JOURNAL, find_run
from shared.errors import FedGTError

_PAUSE = 2.0  # seconds between two looks at a run that goes on


def track(
    run: Annotated[Path, typer.Argument(help="The folder of a run, or of a comparison.")],
    to_tensorboard: Annotated[
        Path | None, typer.Option("--tensorboard", metavar="FOLDER", help="Write event files.")
    ] = None,
    to_mlflow: Annotated[
        str | None,
        typer.Option("--mlflow", metavar="FOLDER|ADDRESS", help="Write a run of MLflow."),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(help="Give MLflow this exported model, with its card.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until the run has ended.")
    ] = False,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Let MLflow be on another machine.")
    ] = False,
) -> None:
    """Write a run to TensorBoard or MLflow.

    Metrics are named by whose they are: institution/bank-a/val_accuracy. All of
    it stays on this machine unless --allow-remote says otherwise.
    """
    if to_tensorboard is None and to_mlflow is None:
        raise FedGTError("nowhere to write to: add --tensorboard FOLDER or --mlflow FOLDER")
    if model is not None and (to_mlflow is None or not (model / "model.json").exists()):
        raise FedGTError("--model is an exported model ('fedgt export') for --mlflow")
    folder = find_run(run).folder
    with ExitStack() as stack:
        trackers: list[Tracker] = []
        if to_tensorboard is not None:
            trackers.append(stack.enter_context(tensorboard(to_tensorboard)))
        if to_mlflow is not None:
            tracker = stack.enter_context(mlflow(to_mlflow, folder, allow_remote=allow_remote))
            trackers.append(tracker)
            if model is not None:
                tracker.log_model(model)
        last = _track(folder, trackers, follow=follow)
    print(f"{last} rounds of {folder}")


def _track(folder: Path, trackers: list[Tracker], *, follow: bool) -> int:
    last, over = 0, False
    while not over:
        over = not follow or isinstance(Journal(folder / JOURNAL).last(), EndEvent | FailedEvent)
        last = track_run(folder, trackers, last)
        if not over:
            time.sleep(_PAUSE)
    return last
