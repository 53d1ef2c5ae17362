"""Similarity matrices of institutions, and nodes in the plane."""

import numpy as np
from matplotlib.figure import Figure

from experiments.grids import Experiment
from experiments.records import Records
from experiments.similarity_blocks import contrast, heatmaps
from fedgt_client.data.partition import SAMPLES_PER_PART


def heatmap_panels(item: Experiment, records: Records) -> Figure:
    """Draw the first seed's matrices, with the contrast over all seeds in the titles."""
    found = heatmaps(records)
    figure = Figure(figsize=(3.4 * len(found), 3.6))
    for panel, heatmap in zip(figure.subplots(1, len(found)), found, strict=True):
        if not heatmap.shown:
            panel.set_title(f"{heatmap.label}\nnot run", fontsize=9)
            panel.set_axis_off()
            continue
        panel.imshow(heatmap.shown[0], cmap="Blues", vmin=0.0)
        number = np.mean([contrast(matrix).difference for matrix in heatmap.shown])
        panel.set_title(f"{heatmap.label}\nwithin − between blocks {number:.3f}", fontsize=9)
        starts = range(0, len(heatmap.shown[0]), SAMPLES_PER_PART)
        panel.set_xticks(starts)
        panel.set_yticks(starts)
        panel.tick_params(labelsize=7)
    figure.tight_layout()
    return figure


def tsne(item: Experiment, records: Records) -> Figure:
    """Draw nodes of two institutions as dots, their global nodes as stars."""
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
