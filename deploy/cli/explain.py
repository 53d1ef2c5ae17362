"""``fedgt explain``: what the prediction of one node leans on."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from deploy.cli.model_options import (
    ChangedData,
    Data,
    Force,
    Institution,
    ModelFolder,
    Run,
    open_trained,
)
from deploy.cli.output import Json, print_json, print_table
from deploy.cli.steps import show_steps
from fedgt_client.predict.explain import Explanation, Influence
from fedgt_client.predict.explain import explain as explain_node
from fedgt_client.predict.explanation_picture import explanation_svg
from fedgt_client.predict.output import check_output
from fedgt_client.predict.source import calibrated
from shared.files import atomic_file


def explain(
    model: ModelFolder,
    node: Annotated[str, typer.Option("--id", help="The node's id.")],
    picture: Annotated[Path | None, typer.Option(help="Also write a picture: a .svg file.")] = None,
    nodes: Annotated[Path | None, typer.Option(help="New nodes, as for 'predict'.")] = None,
    edges: Annotated[Path | None, typer.Option(help="New links, as for 'predict'.")] = None,
    data: Data = None,
    changed_data: ChangedData = False,
    run: Run = "",
    institution: Institution = "",
    force: Force = False,
    json: Json = False,
) -> None:
    """Explain the prediction of one node.

    Attention says where the model looked. The drop is what becomes of the
    predicted class's probability when a neighbour or global node is taken
    away, one at a time; a negative drop means that it spoke against. Methods
    without attention are explained by taking links away.
    """
    if picture is not None:
        check_output(picture, force=force, suffixes=(".svg",))
    with show_steps(quiet=json) as step:
        source, base = open_trained(model, data, run, institution, step, changed_data=changed_data)
        own = base.attach(nodes, edges) if nodes or edges else base
        if source.assessment is None:
            step("calibrating on the validation nodes")
            source = calibrated(source, base, source.model.scores(base))
        step(f"explaining {node}")
        found = explain_node(source.model, own, node)
    if picture is not None:
        with atomic_file(picture) as staging:
            staging.write_text(explanation_svg(found), encoding="utf-8")
    if json:
        print_json({"model": source.model.describe(), **asdict(found)})
    else:
        _show(found)


def _show(found: Explanation) -> None:
    title = f"{found.node}: {found.predicted}, probability {found.probability:.3f}"
    columns = ["", "leans on", "label", "PPR", "attention", "drop"]
    print_table(escape(title), columns, [_row(one) for one in found.influences])


def _row(one: Influence) -> list[str]:
    return [
        one.kind,
        escape(one.name),
        escape(one.label or "–"),
        "–" if one.weight is None else f"{one.weight:.4f}",
        "–" if one.attention is None else f"{one.attention:.3f}",
        "–" if one.drop is None else f"{one.drop:+.4f}",
    ]
