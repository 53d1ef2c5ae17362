"""The paper's tables from our records: of accuracies here, of other things in ``measured_tables``.

Nothing is shown that is not in a record of the same request.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.grids import Experiment, experiment
from experiments.job import Job
from experiments.measurement_tables import (
    convergence_table,
    cost_table,
    heatmap_table,
    ldp_table,
    preprocessing_table,
    statistics_table,
)
from experiments.paper_values import PAPER, PaperFigure
from experiments.records import changed_settings, finished
from experiments.result_table import Column, Entry, Row, Table
from experiments.variants import VARIANTS
from shared.errors import FedGTError

Records = Mapping[Job, dict[str, Any]]

_TITLES = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "amazon-computers": "Computers",
    "amazon-photo": "Photo",
}


def load(item: Experiment, results: Path) -> dict[Job, dict[str, Any]]:
    """The finished jobs of an experiment with their records."""
    found = ((job, finished(results, job)) for job in item.jobs)
    return {job: record for job, record in found if record is not None}


def title_of(dataset: str) -> str:
    """A dataset's name as papers write it."""
    return _TITLES.get(dataset, dataset)


def accuracies(records: Records, cell: str, row: str) -> list[float]:
    """Test accuracy in %, one for each seed, in the order of the seeds."""
    values = [
        (job.seed, record["test"])
        for job, record in records.items()
        if job.cell == cell and job.row == row and record["test"] is not None
    ]
    return [100 * value for _, value in sorted(values)]


def accuracy_table(item: Experiment, records: Records) -> Table:
    """Rows of variants, columns of datasets and numbers of clients, and their average."""
    cells = list(dict.fromkeys((job.cell, job.dataset, job.clients) for job in item.jobs))
    paper = PAPER.get(item.name, {})
    asked = {job.row for job in item.jobs}
    names = [name for name in VARIANTS if name in asked]
    names += sorted(asked - VARIANTS.keys())
    grid = {
        name: [
            Entry.of(accuracies(records, cell, name), paper.get((cell, name)))
            for cell, _, _ in cells
        ]
        for name in names
    }
    common = _common(list(grid.values()))
    headings = [f"{title_of(dataset)}, {clients}" for _, dataset, clients in cells]
    columns = [Column(heading, best="highest") for heading in headings]
    if common:
        columns.append(Column(f"average of {len(common)}", best="highest"))
    rows = [
        Row(_label(name), (*entries, *([_average(entries, common)] if common else [])))
        for name, entries in grid.items()
    ]
    notes = ["Test accuracy in %, ± standard deviation over the seeds, in brackets the paper's."]
    if common and len(common) < len(cells):
        listed = ", ".join(headings[index] for index in common)
        notes.append(f"The average is over the cells that all rows have: {listed}.")
    return Table(item.title, "method", tuple(columns), tuple(rows), tuple(notes))


def _label(row: str) -> str:
    return VARIANTS[row].label if row in VARIANTS else row


def _common(rows: Sequence[Sequence[Entry]]) -> list[int]:
    """Columns in which every row that has anything has something."""
    begun = [row for row in rows if any(entry.seeds for entry in row)]
    if not begun:
        return []
    return [index for index in range(len(begun[0])) if all(row[index].seeds for row in begun)]


def _average(entries: Sequence[Entry], common: Sequence[int]) -> Entry:
    """Of the means, and of the paper's where it has all of them."""
    chosen = [entries[index] for index in common]
    means = [entry.mean for entry in chosen if entry.mean is not None]
    printed = [entry.paper.mean for entry in chosen if entry.paper is not None]
    paper = PaperFigure(sum(printed) / len(printed)) if len(printed) == len(chosen) else None
    if len(means) < len(chosen):
        return Entry(paper=paper)
    return Entry(sum(means) / len(means), None, min(entry.seeds for entry in chosen), paper)


def hyper_table(item: Experiment, records: Records) -> Table:
    """A row for every value tried; the defaults are one row."""
    rows = [
        Row("defaults" if row == "fedgt" else row.removeprefix("fedgt-"), (Entry.of(values),))
        for row in dict.fromkeys(job.row for job in item.jobs)
        for values in [accuracies(records, item.jobs[0].cell, row)]
    ]
    return Table(item.title, "setting", (Column("test %", best="highest"),), tuple(rows))


_BUILDERS: Mapping[str, Callable[[Experiment, Records], Table]] = {
    **dict.fromkeys(
        (
            "main-disjoint",
            "main-overlap",
            "louvain",
            "unbalanced",
            "similarity",
            "ablation",
            "masks",
            "sampling",
        ),
        accuracy_table,
    ),
    "hyper": hyper_table,
    "ldp": ldp_table,
    "cost": cost_table,
    "heatmap": heatmap_table,
    "convergence": convergence_table,
    "statistics": statistics_table,
    "preprocessing": preprocessing_table,
}


def build_table(name: str, results: Path) -> Table:
    """The table of an experiment, as far as it has been run."""
    item = experiment(name)
    if name not in _BUILDERS:
        raise FedGTError(f"{name} has no table, only a figure: fedgt experiment figure {name}")
    records = load(item, results)
    table = _BUILDERS[name](item, records)
    return replace(table, notes=(*table.notes, *_state(item, records)))


def _state(item: Experiment, records: Records) -> list[str]:
    """What a reader must know of the records themselves."""
    notes = []
    if len(records) < len(item.jobs):
        notes.append(
            f"{len(records)} of {len(item.jobs)} runs are finished; what is not is left empty."
        )
    commits = {record.get("code", {}).get("commit") for record in records.values()}
    if len(commits) > 1:
        notes.append(f"Made with {len(commits)} versions of the code; each record names its own.")
    changed = [keys for job in records if (keys := changed_settings(job, records[job]))]
    if changed:
        names = ", ".join(sorted(set().union(*changed)))
        notes.append(f"{len(changed)} runs were made with other settings than today's: {names}.")
    return notes
