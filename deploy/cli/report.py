"""``fedgt report``: one HTML file that shows a run, or an institution's own model."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.output import Json, print_json
from deploy.cli.steps import show_steps
from deploy.node_file import NODE_FILE, read_node_file
from deploy.page.html import render
from fedgt_server.methods import METHODS
from fedgt_server.report.build import build_view
from fedgt_server.report.runs import JOURNAL, find_run
from fedgt_server.report.settings import setting_views
from shared.errors import FedGTError
from shared.files import atomic_file

FILE = "report.html"
# What tells an institution's folder from a coordinator's: of a kit, of a state, of an export.
_OWN_FILES = (NODE_FILE, "run.json")


def report(
    run: Annotated[
        Path, typer.Argument(help="The folder of a run or of a comparison, or an own kit.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The page; default: report.html in the folder.")
    ] = None,
    alone: Annotated[
        Path | None, typer.Option(help="A run of method 'local' on the same data, to compare.")
    ] = None,
    institution: Annotated[
        str, typer.Option(help="Show this institution's own model, of a run on this machine.")
    ] = "",
    run_name: Annotated[
        str, typer.Option("--run", help="Of several runs in a kit; default: the newest model.")
    ] = "",
    json: Json = False,
) -> None:
    """Write the page of a run: one HTML file.

    It shows who gains, curves, similarities, privacy and settings, opens from
    disk and loads nothing from anywhere. Of an institution's kit or state it
    shows that institution's model, what left and what it cost, from its own
    state and data alone.
    """
    if institution or _is_own(run):
        if alone is not None:
            raise FedGTError(
                "--alone is of a coordinator's run: an institution's page has no others"
            )
        with show_steps(quiet=json) as step:
            step("scoring")
            place = write_own_report(run, out, run_name=run_name, institution=institution)
    else:
        place = write_report(run, out, alone)
    if json:
        print_json({"page": str(place), "bytes": place.stat().st_size})
    else:
        print(f"page: {place}")


def write_report(run: Path, out: Path | None = None, alone: Path | None = None) -> Path:
    """Write the page of a run; return where it is."""
    view = build_view(find_run(run, alone))
    return _write(out or run / FILE, render(view, "run"))


def write_own_report(
    folder: Path, out: Path | None = None, *, run_name: str = "", institution: str = ""
) -> Path:
    """Write the page of an institution's own model; return where it is."""
    # The coordinator has no torch, and no use for this page.
    from fedgt_client.predict.source import open_source
    from fedgt_client.report.build import build_own_view

    source = open_source(folder, run=run_name, institution=institution)
    why_not, data = "", None
    try:
        data = source.open_data()
        source.check_same_data(data)
    except (FedGTError, OSError) as error:
        data, why_not = None, f"the data it was trained on was not found ({error})"
    config = source.model.record.config
    method = str(config["method"])
    view = build_own_view(
        source,
        data,
        method_title=METHODS[method].title if method in METHODS else method,
        settings=[one.model_dump() for one in setting_views(config)],
        why_not=why_not,
        own_budget=_own_budget(folder),
    )
    name = f"report-{source.model.record.institution}.html" if institution else FILE
    return _write(out or folder / name, render(view, "institution"))


def _own_budget(kit: Path) -> float:
    """Return the ε that the policy of a kit allows; 0: no limit, or no kit."""
    if not (kit / NODE_FILE).exists():
        return 0.0
    limits = read_node_file(kit / NODE_FILE).limits
    return limits.privacy_budget if limits else 0.0


def _is_own(folder: Path) -> bool:
    return not (folder / JOURNAL).exists() and any((folder / name).exists() for name in _OWN_FILES)


def _write(place: Path, page: str) -> Path:
    with atomic_file(place) as staging:
        staging.write_text(page, encoding="utf-8")
    return place
