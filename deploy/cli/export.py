"""``fedgt export``: the institution's model as a folder of its own."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.model_options import Data, Institution, ModelFolder, Run, open_trained
from deploy.cli.output import Json, print_json
from deploy.cli.steps import show_steps
from fedgt_client.predict.assessment import assess
from fedgt_client.predict.exported_model import CARD_FILE, export_model
from fedgt_client.predict.model_card import model_card
from shared.errors import FedGTError
from shared.files import check_writable


def export(
    model: ModelFolder,
    out: Annotated[Path, typer.Option(help="The folder to write.")],
    data: Data = None,
    run: Run = "",
    institution: Institution = "",
    json: Json = False,
) -> None:
    """Export an institution's model with a card.

    Safetensors and JSON. On another machine, 'fedgt predict FOLDER --data
    GRAPH' gives the same scores. The threshold is the one that 'fedgt
    evaluate' chose. The weights can disclose something of the institution's
    nodes: treat the folder as you treat the data.
    """
    if out.exists():
        raise FedGTError(f"{out} exists already: choose another folder")
    check_writable(out)
    with show_steps(quiet=json) as step:
        source, own = open_trained(model, data, run, institution, step)
        if source.exported:
            raise FedGTError(f"{model} is an exported model already: copy the folder")
        step("scoring")
        scores = source.model.scores(own)
        step("measuring")
        found = assess(source.model, own, scores, source.rule, with_intervals=True)
        found.write(source.folder)
        trained = source.model.with_schema(own.schema)
        card = model_card(trained, found, source.folder)
        export_model(trained, found, card, out)
    if json:
        print_json(
            {
                "folder": str(out),
                "model": trained.describe(),
                "files": sorted(path.name for path in out.iterdir()),
            }
        )
    else:
        print(f"{out}: the model of {trained.describe()}; see {out / CARD_FILE}")
