"""Lines: accuracy over rounds, over hyper-parameters, over privacy noise."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from experiments.accuracy_tables import accuracies, title_of
from experiments.grids import HYPER, LDP_NOISE, Experiment
from experiments.job import Job
from experiments.measurement_tables import ldp_budget, ldp_scope
from experiments.records import Records
from experiments.result_table import Entry
from experiments.variants import VARIANTS

_SYMBOLS = {"layers": "L", "global-nodes": "$n_g$", "samples": "$n_s$", "tau": "τ"}


def convergence(item: Experiment, records: Records) -> Figure:
    """Draw mean test accuracy over the rounds, a panel for each partition that has runs."""
    cells = list(dict.fromkeys(job.cell for job in item.jobs if job in records))
    names = list(dict.fromkeys(job.row for job in item.jobs))
    width = min(len(cells), 5)
    height = -(-len(cells) // width)
    figure = Figure(figsize=(3.6 * width, 3.0 * height))
    panels, lines = figure.subplots(height, width, squeeze=False), dict[str, Any]()
    for panel, cell in zip(panels.flat, cells, strict=False):
        for index, name in enumerate(names):
            curve = mean_curve(records, cell, name)
            if curve is not None:
                rounds = range(1, len(curve) + 1)
                # The same colour in all panels, even if a method is missing in one of them.
                colour, thick = ("black", 2.0) if name == "fedgt" else (f"C{index}", 1.2)
                (lines[VARIANTS[name].label],) = panel.plot(
                    rounds, 100 * curve, color=colour, linewidth=thick
                )
        dataset, partition = cell.split("/")
        panel.set_title(f"{title_of(dataset)}, {partition}", fontsize=9)
        panel.set_xlabel("round", fontsize=8)
        panel.tick_params(labelsize=7)
    for panel in list(panels.flat)[len(cells) :]:
        panel.set_axis_off()
    panels[0, 0].set_ylabel("test accuracy in %", fontsize=8)
    panels[0, 0].legend(list(lines.values()), list(lines), fontsize=6)
    figure.tight_layout()
    return figure


def mean_curve(records: Records, cell: str, row: str) -> np.ndarray | None:
    """Return test accuracy over the rounds, averaged over the seeds, shape (rounds,)."""
    curves = [
        [np.nan if value is None else value for value in record["rounds"]["test"]]
        for job, record in records.items()
        if job.cell == cell and job.row == row
    ]
    if not curves:
        return None
    shortest = min(len(curve) for curve in curves)
    return np.asarray(np.mean([curve[:shortest] for curve in curves], axis=0))


def hyper(item: Experiment, records: Records) -> Figure:
    """Draw a panel for each hyper-parameter, FedGT's default among its values."""
    figure = Figure(figsize=(3.2 * len(HYPER), 2.8))
    cell = item.jobs[0].cell
    for panel, (key, values) in zip(figure.subplots(1, len(HYPER)), HYPER.items(), strict=True):
        rows = [_row_of(item, key, value) for value in values]
        _line(
            panel,
            values,
            [Entry.of([*accuracies(records, cell, row).values()]) for row in rows],
            None,
        )
        panel.set_xlabel(_SYMBOLS[key])
        panel.set_xticks([float(value) for value in values])
    figure.axes[0].set_ylabel("test accuracy in %", fontsize=8)
    figure.tight_layout()
    return figure


def _row_of(item: Experiment, key: str, value: Any) -> str:
    """Return the row of a value tried; the default's where it has none of its own."""
    rows = (job.row for job in item.jobs if job.extra == ((key, value),))
    return next(rows, "fedgt")


def _line(panel: Any, places: Sequence[Any], entries: Sequence[Entry], label: str | None) -> None:
    known = [(float(x), entry) for x, entry in zip(places, entries, strict=True) if entry.seeds]
    panel.errorbar(
        [x for x, _ in known],
        [entry.mean for _, entry in known],
        yerr=[entry.deviation or 0.0 for _, entry in known],
        marker="o",
        capsize=3,
        label=label,
    )
    panel.tick_params(labelsize=7)


def ldp(item: Experiment, records: Records) -> Figure:
    """Draw accuracy over λ for what is protected, and the budget ε over λ for some δ."""
    cell = item.jobs[0].cell
    figure = Figure(figsize=(8.5, 3.2))
    left, right = figure.subplots(1, 2)
    for scope in ("global nodes", "all"):
        jobs = {ldp_budget(job)[1]: job for job in item.jobs if _of_scope(job, scope)}
        noises = [noise for noise in LDP_NOISE if noise in jobs]
        entries = [
            Entry.of([*accuracies(records, cell, jobs[noise].row).values()]) for noise in noises
        ]
        _line(left, noises, entries, f"noise on {scope}")
    without = Entry.of([*accuracies(records, cell, "fedgt-noldp").values()])
    if without.mean is not None:
        left.axhline(without.mean, color="grey", linestyle="--", label="no noise")
    # Set, for there may be nothing yet to find them from.
    left.set_xlim(0.8 * LDP_NOISE[0], 1.25 * LDP_NOISE[-1])
    left.set_xscale("log")
    left.set_xlabel("λ, with δ = 1")
    left.set_ylabel("test accuracy in %")
    left.legend(fontsize=7)
    for clip in (0.5, 1.0, 2.0):
        right.plot(LDP_NOISE, [2 * clip / noise for noise in LDP_NOISE], label=f"δ = {clip:g}")
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("λ")
    right.set_ylabel("ε = 2δ/λ, a coordinate and upload")
    right.legend(fontsize=7)
    figure.tight_layout()
    return figure


def _of_scope(job: Job, scope: str) -> bool:
    return ldp_scope(job) == scope and ldp_budget(job)[0] == 1.0
