"""``fedgt predict``: labels and probabilities for nodes, with the institution's own model."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from deploy.cli.model_options import (
    ChangedData,
    Data,
    Force,
    Institution,
    ModelFolder,
    Run,
    open_trained,
)
from deploy.cli.output import Json, print_json, status_console
from deploy.cli.steps import show_steps
from fedgt_client.predict.output import check_output, write_predictions
from fedgt_client.predict.source import calibrated


def predict(
    model: ModelFolder,
    out: Annotated[Path, typer.Option(help="The file to write: .parquet or .csv.")],
    nodes: Annotated[
        Path | None, typer.Option(help="New nodes, with the columns of the import.")
    ] = None,
    edges: Annotated[
        Path | None, typer.Option(help="New links, also between old nodes; same columns.")
    ] = None,
    all_nodes: Annotated[
        bool, typer.Option("--all", help="With --nodes: write all nodes, not the new ones alone.")
    ] = False,
    data: Data = None,
    changed_data: ChangedData = False,
    run: Run = "",
    institution: Institution = "",
    force: Force = False,
    json: Json = False,
) -> None:
    """Predict classes with an institution's model.

    A row for each node: its id, the predicted class, a probability for each
    class, whether it has a label, its split in training, whether it has a
    link, and whether it is new. Needs no coordinator and no network; works
    during a run, with the best model so far.
    """
    check_output(out, force=force)
    with show_steps(quiet=json) as step:
        source, base = open_trained(model, data, run, institution, step, changed_data=changed_data)
        own, scores = base, None
        if nodes or edges:
            step("attaching new nodes and links")
            own = base.attach(nodes, edges)
        if source.assessment is None:
            step("calibrating on the validation nodes")
            scores = source.model.scores(base)
            source = calibrated(source, base, scores)
        trained = source.model
        if scores is None or own is not base:
            step(f"scoring {own.graph.num_nodes:,} nodes")
            scores = trained.scores(own)
        only_new = nodes is not None and not all_nodes
        rows = write_predictions(
            trained,
            own,
            scores,
            out,
            only_new=only_new,
            progress=lambda done: step(f"writing {out.name}: {done:,} rows"),
        )
    written = own.new if only_new else np.ones_like(own.new)
    unlinked = int((written & ~own.linked()).sum())
    if json:
        print_json(
            {
                "file": str(out),
                "rows": rows,
                "new": int(own.new.sum()),
                "unlinked": unlinked,
                "institution": trained.record.institution,
                "run": trained.record.run,
                "round": trained.round_number,
                "saved": trained.saved,
                "calibration": trained.calibration.model_dump(mode="json"),
            }
        )
        return
    print(f"{out}: {rows:,} node{'' if rows == 1 else 's'}, by the model of {trained.describe()}")
    if unlinked:
        have = "has" if unlinked == 1 else "have"
        note = (
            f"{unlinked:,} of them {have} no link: scored by their features alone (linked = false)"
        )
        status_console.print(note, markup=False, highlight=False, soft_wrap=True)
