"""Tables of test accuracies, ours beside the paper's."""

from collections.abc import Sequence

from experiments.grids import Experiment
from experiments.paper_values import PAPER, PaperFigure
from experiments.records import Records
from experiments.result_table import Column, Entry, Row, Table
from experiments.variants import VARIANTS

_TITLES = {
    "cora": "Cora",
    "citeseer": "CiteSeer",
    "pubmed": "PubMed",
    "amazon-computers": "Computers",
    "amazon-photo": "Photo",
}


def title_of(dataset: str) -> str:
    """Return a dataset's name as papers write it."""
    return _TITLES.get(dataset, dataset)


def accuracies(records: Records, cell: str, row: str) -> list[float]:
    """Return test accuracies in %, one for each seed, in the order of the seeds."""
    values = [
        (job.seed, record["test"])
        for job, record in records.items()
        if job.cell == cell and job.row == row and record["test"] is not None
    ]
    return [100 * value for _, value in sorted(values)]


def accuracy_table(item: Experiment, records: Records) -> Table:
    """Build rows of variants, columns of datasets and numbers of clients, and their average."""
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
    """Return the columns in which every row that has any value has one."""
    begun = [row for row in rows if any(entry.seeds for entry in row)]
    if not begun:
        return []
    return [index for index in range(len(begun[0])) if all(row[index].seeds for row in begun)]


def _average(entries: Sequence[Entry], common: Sequence[int]) -> Entry:
    """Average the means, and the paper's where it has all of them."""
    chosen = [entries[index] for index in common]
    means = [entry.mean for entry in chosen if entry.mean is not None]
    printed = [entry.paper.mean for entry in chosen if entry.paper is not None]
    paper = PaperFigure(sum(printed) / len(printed)) if len(printed) == len(chosen) else None
    if len(means) < len(chosen):
        return Entry(paper=paper)
    return Entry(sum(means) / len(means), None, min(entry.seeds for entry in chosen), paper)


def hyper_table(item: Experiment, records: Records) -> Table:
    """Build a row for every value tried; the defaults are one row."""
    rows = [
        Row("defaults" if row == "fedgt" else row.removeprefix("fedgt-"), (Entry.of(values),))
        for row in dict.fromkeys(job.row for job in item.jobs)
        for values in [accuracies(records, item.jobs[0].cell, row)]
    ]
    return Table(item.title, "setting", (Column("test %", best="highest"),), tuple(rows))
