"""Tables of other things than accuracies alone: costs, privacy, blocks, partitions."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deploy.settings import resolve_settings
from experiments.grids import Experiment
from experiments.job import Job
from experiments.paper_values import COST, PREPROCESSING, PaperFigure
from experiments.records import Records
from experiments.result_table import Column, Entry, Row, Table
from experiments.similarity_blocks import contrast, heatmaps
from experiments.variants import VARIANTS
from fedgt_client.data.paper_statistics import CLIENT_COUNTS, paper_statistics

Value = Callable[[dict[str, Any]], float | None]


def collect(records: Records, value: Value) -> list[float]:
    """Return a value of each record, in the order of the seeds; unknown ones are left out."""
    found = [value(records[job]) for job in sorted(records, key=lambda job: job.seed)]
    return [number for number in found if number is not None]


def _of(records: Records, cell: str | None = None, row: str | None = None) -> Records:
    """Return the records of a cell and of a row; None: of any."""
    return {
        job: record
        for job, record in records.items()
        if cell in (None, job.cell) and row in (None, job.row)
    }


def round_bytes(record: Mapping[str, Any]) -> float:
    """Return the bytes of a round, both ways, of all clients."""
    total = record["bytes"]["up"] + record["bytes"]["down"]
    return float(total / len(record["rounds"]["val"]))


def round_seconds(record: Mapping[str, Any]) -> float:
    """Return CPU seconds of a round of all clients, without the first, which loads libraries."""
    seconds = record["rounds"]["cpu_seconds"]
    return statistics.fmean(seconds[1:] or seconds)


def cost_table(item: Experiment, records: Records) -> Table:
    """Build communication and computation of a round, and both as shares of FedAvg's."""
    names = list(dict.fromkeys(job.row for job in item.jobs))
    sizes = {name: _of_row(records, name, round_bytes) for name in names}
    seconds = {name: _of_row(records, name, round_seconds) for name in names}
    rows = []
    for name in names:
        paper = COST.get(name)
        rows.append(
            Row(
                VARIANTS[name].label,
                (
                    Entry.of([size / 1e6 for size in sizes[name]]),
                    _share(sizes, name, paper[0] if paper else None),
                    Entry.of(seconds[name]),
                    _share(seconds, name, paper[1] if paper else None),
                ),
            )
        )
    columns = (
        Column("MB a round", 2),
        Column("MB, % of FedAvg's", 1),
        Column("CPU s a round", 3),
        Column("CPU, % of FedAvg's", 1),
    )
    note = (
        "All clients together, both ways; in brackets the paper's. Methods that send nothing "
        "but metrics still send those."
    )
    return Table(item.title, "method", columns, tuple(rows), (note,))


def _of_row(records: Records, row: str, value: Value) -> list[float]:
    return collect(_of(records, row=row), value)


def _fact(key: str) -> Value:
    return lambda record: float(record[key])


def _share(values: Mapping[str, list[float]], name: str, paper: float | None) -> Entry:
    """Return values in % of FedAvg's mean; nothing where FedAvg has not been run."""
    printed = None if paper is None else PaperFigure(paper)
    whole = statistics.fmean(values["fedavg"]) if values.get("fedavg") else 0.0
    if not whole:
        return Entry(paper=printed)
    return Entry.of([100 * value / whole for value in values[name]], printed)


def ldp_budget(job: Job) -> tuple[float, float]:
    """Return δ and λ of a run."""
    config = resolve_settings(job.values(), preset=job.preset)
    return config.ldp_clip, config.ldp_noise


def ldp_scope(job: Job) -> str:
    """Return what is protected: nothing, the global nodes, or all."""
    if job.variant == "fedgt-noldp":
        return "nothing"
    return "all" if dict(job.extra).get("ldp") == "all" else "global nodes"


def ldp_table(item: Experiment, records: Records) -> Table:
    """Build accuracy beside the budget of a coordinate in an upload and in the whole run."""
    rows = []
    for row in dict.fromkeys(job.row for job in item.jobs):
        job = next(job for job in item.jobs if job.row == row)
        clip, noise = ldp_budget(job)
        scope = ldp_scope(job)
        label = scope if scope == "nothing" else f"{scope}, δ = {clip:g}, λ = {noise:g}"
        if job.preset == "paper":
            label = f"the paper's settings: {label}"
        rows.append(
            Row(
                label,
                (
                    Entry.of(_of_row(records, row, _test)),
                    *(
                        _same(_of_row(records, row, _budget(key)))
                        for key in ("epsilon_coordinate", "epsilon_coordinate_total")
                    ),
                ),
            )
        )
    columns = (
        Column("test %", best="highest"),
        Column("ε, a coordinate and upload", 1),
        Column("ε, a coordinate and run", 0),
    )
    return Table(item.title, "protected", columns, tuple(rows))


def _test(record: Mapping[str, Any]) -> float | None:
    return None if record["test"] is None else 100 * float(record["test"])


def _budget(key: str) -> Value:
    return lambda record: (record["privacy"] or {}).get(key)


def _same(values: Sequence[float]) -> Entry:
    """Return the entry of a value that does not depend on the seed."""
    return Entry(values[0], None, len(values)) if values else Entry()


def heatmap_table(item: Experiment, records: Records) -> Table:
    """Build how much more alike institutions of one METIS part are than others."""
    rows = []
    for heatmap in heatmaps(records):
        shown = [contrast(matrix) for matrix in heatmap.shown]
        rows.append(
            Row(
                heatmap.label,
                (
                    Entry.of([item.within for item in shown]),
                    Entry.of([item.between for item in shown]),
                    Entry.of([item.difference for item in shown]),
                    Entry.of([item.relative for item in shown]),
                    Entry.of([contrast(matrix).difference for matrix in heatmap.similarity]),
                ),
            )
        )
    columns = (
        Column("within blocks", 3),
        Column("between blocks", 3),
        Column("difference", 3),
        Column("difference / spread", 2),
        Column("difference of S", 3),
    )
    note = (
        "Of pairs of institutions that stem from the same METIS part, and of others: as in the "
        "figure, the mean weight α in the other's average (equation 8), for label distributions "
        "the mean cosine; spread is the standard deviation over all pairs. S is the similarity "
        "before the softmax of equation 8."
    )
    return Table(item.title, "similarity of", columns, tuple(rows), (note,))


_NEARLY = 0.95  # of the best validation accuracy


def rounds_to_converge(record: Mapping[str, Any]) -> float | None:
    """Return the first round that comes near the best validation accuracy of the run."""
    curve = [value or 0.0 for value in record["rounds"]["val"]]
    near = _NEARLY * max(curve)
    return float(next(number for number, value in enumerate(curve, 1) if value >= near))


def convergence_table(item: Experiment, records: Records) -> Table:
    """Build the number of rounds that each method needs."""
    cells = list(dict.fromkeys(job.cell for job in item.jobs))
    names = list(dict.fromkeys(job.row for job in item.jobs))
    rows = [
        Row(
            VARIANTS[name].label,
            tuple(
                Entry.of(collect(_of(records, cell, name), rounds_to_converge)) for cell in cells
            ),
        )
        for name in names
    ]
    columns = tuple(Column(cell, 0, best="lowest") for cell in cells)
    note = f"The first round with {_NEARLY:.0%} of the run's best validation accuracy."
    return Table(item.title, "method", columns, tuple(rows), (note,))


def statistics_table(item: Experiment, records: Records) -> Table:
    """Build missing links and heterogeneity, a row for each partition."""
    rows = []
    for cell in dict.fromkeys(job.cell for job in item.jobs):
        job = next(job for job in item.jobs if job.cell == cell)
        paper = paper_statistics(job.dataset, job.setting, job.clients)
        entries = [
            Entry.of(
                collect(_of(records, cell), _fact(key)),
                None if printed is None else PaperFigure(printed),
            )
            for key, printed in (
                ("missing_links", paper.missing_links),
                ("heterogeneity", paper.heterogeneity),
            )
        ]
        rows.append(Row(cell, tuple(entries)))
    columns = (Column("missing links", 0), Column("heterogeneity", 3))
    note = "In brackets the paper's."
    return Table(item.title, "partition", columns, tuple(rows), (note,))


def preprocessing_table(item: Experiment, records: Records) -> Table:
    """Build the mean seconds of a client, a row for each dataset."""
    counts = CLIENT_COUNTS["disjoint"]
    rows = []
    for dataset in dict.fromkeys(job.dataset for job in item.jobs):
        printed = PREPROCESSING[dataset]
        rows.append(
            Row(
                dataset,
                tuple(
                    Entry.of(
                        collect(
                            _of(records, f"{dataset}/disjoint-{clients}"),
                            lambda record: statistics.fmean(record["prepare_cpu_seconds"]),
                        ),
                        PaperFigure(paper),
                    )
                    for clients, paper in zip(counts, printed, strict=True)
                ),
            )
        )
    columns = tuple(Column(f"{clients} clients", 2) for clients in counts)
    note = "CPU seconds of a client, PPR and positional encoding; in brackets the paper's seconds."
    return Table(item.title, "dataset", columns, tuple(rows), (note,))
