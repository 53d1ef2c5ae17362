"""Rows side by side: accuracies of variants as points, costs of methods as bars."""

from typing import Any

from matplotlib.figure import Figure

from experiments.accuracy_tables import accuracy_table
from experiments.grids import Experiment
from experiments.measurement_tables import cost_table
from experiments.records import Records
from experiments.result_table import Table
from shared.errors import FedGTError

_PAPER = "#999999"


def accuracy_points(item: Experiment, records: Records) -> Figure:
    """Draw a panel for each dataset and number of clients; ours as points, the paper's as lines."""
    table = accuracy_table(item, records)
    drawn = [
        index
        for index, column in enumerate(table.columns)
        if not column.heading.startswith("average")
        and any(row.entries[index].seeds for row in table.rows)
    ]
    if not drawn:
        raise FedGTError(f"no run of {item.name} has a test accuracy")
    width = min(len(drawn), 3)
    height = -(-len(drawn) // width)
    figure = Figure(figsize=(4.2 * width, (0.9 + 0.3 * len(table.rows)) * height))
    panels = figure.subplots(height, width, squeeze=False)
    for panel, index in zip(panels.flat, drawn, strict=False):
        _accuracy_panel(panel, table, index)
    for panel in list(panels.flat)[len(drawn) :]:
        panel.set_axis_off()
    figure.suptitle(f"{item.title}: test accuracy in %, | the paper's", fontsize=10)
    figure.tight_layout()
    return figure


def _accuracy_panel(panel: Any, table: Table, index: int) -> None:
    rows = [row for row in table.rows if row.entries[index].seeds]
    means = [row.entries[index].mean or 0.0 for row in rows]
    errors = [row.entries[index].deviation or 0.0 for row in rows]
    # No bars: the axis does not begin at 0.
    for place, (mean, error) in enumerate(zip(means, errors, strict=True)):
        colour = "C1" if rows[place].label == "FedGT" else "C0"
        panel.errorbar(mean, place, xerr=error, fmt="o", color=colour, capsize=2)
    printed = [row.entries[index].paper for row in rows]
    for place, paper in enumerate(printed):
        if paper is not None:
            panel.plot([paper.mean] * 2, [place - 0.4, place + 0.4], color="black", linewidth=1.5)
    known = [paper.mean for paper in printed if paper is not None]
    known += [
        mean + sign * error for mean, error in zip(means, errors, strict=True) for sign in (-1, 1)
    ]
    panel.set_xlim(min(known) - 1, max(known) + 1)
    panel.grid(axis="y", linewidth=0.3)
    panel.set_yticks(range(len(rows)), [row.label for row in rows], fontsize=7)
    panel.set_ylim(len(rows) - 0.4, -0.6)  # the first row on top
    panel.tick_params(axis="x", labelsize=7)
    panel.set_title(f"{table.columns[index].heading} clients", fontsize=9)


def cost_bars(item: Experiment, records: Records) -> Figure:
    """Draw communication and computation as shares of FedAvg's, ours beside the paper's."""
    table = cost_table(item, records)
    figure = Figure(figsize=(9, 3.5))
    for panel, index, title in zip(
        figure.subplots(1, 2), (1, 3), ("communication", "computation"), strict=True
    ):
        rows = [row for row in table.rows if row.entries[index].mean is not None]
        places = range(len(rows))
        entries = [row.entries[index] for row in rows]
        ours = [entry.mean or 0.0 for entry in entries]
        paper = [entry.paper.mean if entry.paper else 0.0 for entry in entries]
        panel.barh([place - 0.2 for place in places], ours, height=0.4, label="ours")
        panel.barh(
            [place + 0.2 for place in places], paper, height=0.4, color=_PAPER, label="paper"
        )
        panel.set_yticks(places, [row.label for row in rows], fontsize=8)
        panel.invert_yaxis()
        panel.set_xlabel("% of FedAvg's")
        panel.set_title(title, fontsize=9)
        panel.legend(fontsize=7)
    figure.tight_layout()
    return figure
