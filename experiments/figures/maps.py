"""Similarity matrices of institutions, and nodes in the plane."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.blocks import contrast, normalised
from experiments.grids import Experiment
from experiments.job import Job
from experiments.measured_tables import HEATMAPS, heatmap_matrices

Records = Mapping[Job, dict[str, Any]]

_TAU = 5.0


def heatmaps(item: Experiment, records: Records) -> Figure:
    """The first seed's matrices, with the block number over all seeds in the titles.

    Label distributions as they are; the others normalised over each row, equation 8.
    """
    figure = Figure(figsize=(3.4 * len(HEATMAPS), 3.6))
    panels = figure.subplots(1, len(HEATMAPS))
    for panel, (label, row, early) in zip(panels, HEATMAPS, strict=True):
        matrices = heatmap_matrices(records, row, early=early)
        if not matrices:
            panel.set_title(f"{label}\nnot run", fontsize=9)
            panel.set_axis_off()
            continue
        first = np.array(matrices[0])
        shown = first if row == "statistics" else normalised(first, _tau_of(records, row))
        panel.imshow(shown, cmap="Blues", vmin=0.0)
        number = np.mean([contrast(matrix).difference for matrix in matrices])
        panel.set_title(f"{label}\nwithin − between blocks {number:.3f}", fontsize=9)
        panel.tick_params(labelsize=7)
    figure.tight_layout()
    return figure


def _tau_of(records: Records, row: str) -> float:
    configs = (record.get("config", {}) for job, record in records.items() if job.row == row)
    return float(next(configs).get("tau", _TAU))


def tsne(item: Experiment, records: Records) -> Figure:
    """Nodes of two institutions as dots, their global nodes as stars."""
    record = records[item.jobs[0]]
    figure = Figure(figsize=(5, 4.5))
    panel = figure.subplots()
    for index, institution in enumerate(record["institutions"]):
        nodes, stars = np.array(institution["nodes"]), np.array(institution["global_nodes"])
        colour = f"C{index}"
        panel.scatter(
            nodes[:, 0], nodes[:, 1], s=8, color=colour, alpha=0.5, label=f"institution {index}"
        )
        panel.scatter(
            stars[:, 0], stars[:, 1], s=160, marker="*", color=colour, edgecolor="black", zorder=3
        )
    panel.set_xticks([])
    panel.set_yticks([])
    panel.legend(fontsize=8)
    panel.set_title("Nodes (dots) and global nodes (stars)", fontsize=10)
    return figure
