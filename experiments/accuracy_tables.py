"""Tables of test accuracies, ours beside the paper's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from experiments.grids import Experiment
from experiments.paper_values import PAPER, PaperFigure
from experiments.records import Records
from experiments.result_table import Column, Entry, Row, Table
from experiments.variants import VARIANTS, WHOLE

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


def accuracies(records: Records, cell: str, row: str) -> dict[int, float]:
    """Return test accuracies in %, by seed, in the order of the seeds."""
    values = [
        (job.seed, record["test"])
        for job, record in records.items()
        if job.cell == cell and job.row == row and record["test"] is not None
    ]
    return {seed: 100 * value for seed, value in sorted(values)}


@dataclass(frozen=True)
class AccuracyGrid:
    """An experiment's accuracies: rows of variants, columns of datasets and clients."""

    columns: dict[str, tuple[str, int]]  # dataset and number of clients, by cell
    values: dict[str, dict[str, dict[int, float]]]  # in %, by row, cell and seed

    @classmethod
    def of(cls, item: Experiment, records: Records) -> "AccuracyGrid":
        """Collect what is in the records; rows on the whole graph stand in all columns."""
        columns = {job.cell: (job.dataset, job.clients) for job in item.jobs if job.clients > 1}
        whole = {job.dataset: job.cell for job in item.jobs if job.clients == 1}
        asked = {job.row for job in item.jobs}
        names = [name for name in VARIANTS if name in asked]
        values = {
            name: {
                cell: accuracies(records, whole[dataset] if name in WHOLE else cell, name)
                for cell, (dataset, _) in columns.items()
            }
            for name in (*names, *sorted(asked - VARIANTS.keys()))
        }
        return cls(columns, values)

    def headings(self) -> list[str]:
        """Return a heading for every column."""
        return [f"{title_of(dataset)}, {clients}" for dataset, clients in self.columns.values()]


def accuracy_table(item: Experiment, records: Records) -> Table:
    """Build rows of variants, columns of datasets and numbers of clients, and their average."""
    found = AccuracyGrid.of(item, records)
    paper = PAPER.get(item.name, {})
    grid = {
        name: [
            Entry.of(list(values.values()), paper.get((cell, name)))
            for cell, values in cells.items()
        ]
        for name, cells in found.values.items()
    }
    common = _common(list(grid.values()))
    headings = found.headings()
    columns = [Column(heading, best="highest") for heading in headings]
    if common:
        columns.append(Column(f"average of {len(common)}", best="highest"))
    rows = [
        Row(
            label_of(name),
            (*entries, *([_average(entries, common)] if common else [])),
            ranked=name not in WHOLE,
        )
        for name, entries in grid.items()
    ]
    notes = ["Test accuracy in %, ± standard deviation over the seeds, in brackets the paper's."]
    if common and len(common) < len(headings):
        listed = ", ".join(headings[index] for index in common)
        notes.append(f"The average is over the cells that all rows have: {listed}.")
    return Table(item.title, "method", tuple(columns), tuple(rows), tuple(notes))


def finished_table(item: Experiment, records: Records) -> Table:
    """Build the columns of the accuracy table that all rows with values have, without the paper's.

    For a page that has no place for empty cells.
    """
    table = accuracy_table(item, records)
    rows = [row for row in table.rows if any(entry.seeds for entry in row.entries)]
    kept = _common([row.entries for row in rows])
    return Table(
        table.title,
        table.first,
        tuple(table.columns[index] for index in kept),
        tuple(
            replace(row, entries=tuple(replace(row.entries[index], paper=None) for index in kept))
            for row in rows
        ),
        ("Test accuracy in %, ± standard deviation over the seeds.",),
    )


def label_of(row: str) -> str:
    """Return how a row is called in tables."""
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
        for values in [list(accuracies(records, item.jobs[0].cell, row).values())]
    ]
    return Table(item.title, "setting", (Column("test %", best="highest"),), tuple(rows))
