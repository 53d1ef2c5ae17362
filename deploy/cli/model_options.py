"""What the commands that use a trained model have in common."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from fedgt_client.data.own_data import OwnData
from fedgt_client.predict.source import Source, open_source
from shared.errors import FedGTError

Steps = Callable[[str], None]

ModelFolder = Annotated[
    Path, typer.Argument(help="An institution's kit, the folder of a run, or an exported model.")
]
Data = Annotated[
    Path | None,
    typer.Option(help="The institution's graph; by default where the model was trained."),
]
ChangedData = Annotated[
    bool, typer.Option("--changed-data", help="The graph was imported again since training.")
]
Run = Annotated[str, typer.Option(help="Of several runs in a kit; default: the newest model.")]
Institution = Annotated[str, typer.Option(help="Of several institutions in the folder of a run.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what exists.")]


def open_trained(
    folder: Path,
    data_folder: Path | None,
    run: str,
    institution: str,
    step: Steps,
    *,
    changed_data: bool = False,
) -> tuple[Source, OwnData]:
    """Open a model with the data it was trained on, or with ``changed_data`` of the same schema."""
    source = open_source(folder, run=run, institution=institution)
    step("opening the graph")
    data = source.open_data(data_folder)
    if not changed_data:
        source.check_same_data(data)
    elif source.assessment is None:
        raise FedGTError(
            f"{folder} is not calibrated yet, which takes the data of training: "
            "run 'fedgt evaluate' with that data first"
        )
    return source, data
