"""Draw the paper's figures from our records, and list what is missing."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.build_tables import load
from experiments.grids import Experiment, experiment
from experiments.records import Records
from shared.errors import FedGTError


def draw(name: str, results: Path, out: Path) -> str:
    """Draw an experiment's figure into ``out``; a line about what is missing, or none.

    Raises
    ------
    FedGTError
        Where nothing of it has been run, or the file cannot be drawn.
    """
    item = experiment(name)
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise FedGTError(f"{out} is not a figure: end its name in .png, .svg or .pdf")
    painter = _painters().get(name)
    if painter is None:
        raise FedGTError(f"{name} has no figure, only a table: fedgt experiment table {name}")
    records = load(item, results)
    if not records:
        raise FedGTError(f"nothing of {name} has been run: fedgt experiment run {name}")
    figure = painter(item, records)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=150, bbox_inches="tight")
    missing = len(item.jobs) - len(records)
    if not missing:
        return ""
    first = next(job.name for job in item.jobs if job not in records)
    return f"{missing} of {len(item.jobs)} runs are missing, first {first}"


def _painters() -> Mapping[str, Callable[[Experiment, Records], Any]]:
    try:
        import matplotlib

        matplotlib.use("Agg")  # no window, also where there could be one
    except ImportError:
        raise FedGTError("figures need matplotlib: pip install matplotlib") from None
    from experiments.figures import bars, curves, maps

    accuracy = ("main-disjoint", "main-overlap", "louvain", "unbalanced", "similarity")
    return {
        **dict.fromkeys(
            (*accuracy, "ablation", "conflict", "masks", "sampling"), bars.accuracy_points
        ),
        "cost": bars.cost_bars,
        "convergence": curves.convergence,
        "hyper": curves.hyper,
        "ldp": curves.ldp,
        "heatmap": maps.heatmap_panels,
        "tsne": maps.tsne,
    }
