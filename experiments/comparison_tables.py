"""How sure a difference is, and how far a method goes from alone to the whole graph."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from experiments.accuracy_tables import AccuracyGrid, label_of
from experiments.grids import Experiment
from experiments.records import Records
from experiments.result_table import Column, Entry, Row, Table
from experiments.variants import ALONE, WHOLE

_DRAWS = 10_000
_LEVEL = 0.95
_ALPHA = 1.0 - _LEVEL

BySeed = Mapping[int, float]


def paired_table(item: Experiment, records: Records, own: str = "fedgt") -> Table:
    """Build, for every other row, how much ``own`` is above it, paired by seed.

    The interval is a bootstrap over datasets and, within each, over seeds. A cell is significant
    if the paired t-test over its seeds is, after Holm's correction for all cells of the table.
    """
    grid = AccuracyGrid.of(item, records)
    others = [name for name in grid.values if name != own and name not in WHOLE]
    gains = {
        name: {
            cell: paired(grid.values.get(own, {}).get(cell, {}), values)
            for cell, values in grid.values[name].items()
        }
        for name in others
    }
    tested = [(row, cell) for row in others for cell in grid.columns if len(gains[row][cell]) > 1]
    adjusted = dict(
        zip(tested, holm([paired_p(gains[name][cell]) for name, cell in tested]), strict=True)
    )
    rows = []
    for name in others:
        by_dataset: dict[str, list[list[float]]] = {}
        for cell, (dataset, _) in grid.columns.items():
            if gains[name][cell]:
                by_dataset.setdefault(dataset, []).append(gains[name][cell])
        entries = [Entry.of(gains[name][cell]) for cell in grid.columns]
        interval = [Entry(value, None, 1) for value in bootstrap(by_dataset) or ()]
        sure = [cell for cell in grid.columns if adjusted.get((name, cell), 1.0) < _ALPHA]
        above = sum(float(np.mean(gains[name][cell])) > 0 for cell in sure)
        counts = Entry(float(above), None, 1), Entry(float(len(sure) - above), None, 1)
        rows.append(Row(label_of(name), (*entries, *(interval or [Entry()] * 3), *counts)))
    columns = [Column(heading) for heading in grid.headings()]
    columns += [Column("mean"), Column("95 % from"), Column("to")]
    columns += [Column("cells above", 0), Column("cells below", 0)]
    notes = (
        f"Test accuracy of {label_of(own)} minus that of each row, in points, paired by seed, ± "
        "standard deviation over the seeds. The interval of the mean over all cells is a "
        "bootstrap over datasets and, within each, seeds. Cells above and below: significant, "
        f"p < .05 in the paired t-test after Holm's correction for {len(tested)} comparisons. An "
        "interval that contains 0 shows no difference.",
    )
    return Table(f"{item.title}: differences", "minus", tuple(columns), tuple(rows), notes)


def way_table(item: Experiment, records: Records) -> Table:
    """Build how much of the way from alone (0 %) to the whole graph (100 %) each method goes.

    Alone is the better of a GCN and FedGT's model at each institution, whole the better of the
    two on one graph with all nodes and links.
    """
    grid = AccuracyGrid.of(item, records)
    rows = []
    for name, cells in grid.values.items():
        if name in (*ALONE, *WHOLE):
            continue
        shares = []
        for cell, values in cells.items():
            alone, whole = _best(grid, ALONE, cell), _best(grid, WHOLE, cell)
            mean = float(np.mean(list(values.values()))) if values else math.nan
            way = whole - alone
            # Where pooling all data gives nothing, there is no way to go.
            share = 100 * (mean - alone) / way if way > 0 else math.nan
            shares.append(Entry() if math.isnan(share) else Entry(share, None, len(values)))
        rows.append(Row(label_of(name), tuple(shares)))
    columns = tuple(Column(heading, 0, "highest") for heading in grid.headings())
    note = (
        "In %: 0 is what institutions reach alone, the better of a GCN and FedGT's model; 100 is "
        "the better of the two on the whole graph with all links, measured on all its test nodes."
    )
    title = f"{item.title}: of the way from alone to the whole graph"
    return Table(title, "method", columns, tuple(rows), (note,))


def paired(own: BySeed, other: BySeed) -> list[float]:
    """Return the differences of the seeds that both have."""
    return [own[seed] - other[seed] for seed in sorted(own.keys() & other.keys())]


def paired_p(differences: Sequence[float]) -> float:
    """Return p of the paired t-test, two-sided; 1 for differences that are all the same zero."""
    if float(np.std(differences)) == 0.0:
        return 0.0 if differences[0] else 1.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values corrected for their number (Holm 1979), in the same order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def bootstrap(
    by_dataset: Mapping[str, Sequence[Sequence[float]]],
) -> tuple[float, float, float] | None:
    """Return the mean over cells and its interval; None without any.

    Datasets are drawn with replacement and, within each, the differences of its cells: with
    one dataset alone the interval is over seeds.
    """
    if not by_dataset:
        return None
    generator = np.random.default_rng(0)
    datasets = list(by_dataset.values())
    # Of each dataset, shape (draws,).
    means = [
        np.mean([generator.choice(cell, (_DRAWS, len(cell))).mean(axis=1) for cell in cells], 0)
        for cells in datasets
    ]
    chosen = generator.integers(len(datasets), size=(_DRAWS, len(datasets)))
    drawn = np.stack(means)[chosen, np.arange(_DRAWS)[:, None]].mean(axis=1)
    centre = float(np.mean([np.mean([np.mean(cell) for cell in cells]) for cells in datasets]))
    low, high = np.quantile(drawn, [_ALPHA / 2, 1 - _ALPHA / 2])
    return centre, float(low), float(high)


def _best(grid: AccuracyGrid, rows: Sequence[str], cell: str) -> float:
    """Return the highest mean of some rows in a column; NaN where none has been run."""
    found = [list(grid.values.get(row, {}).get(cell, {}).values()) for row in rows]
    return max((float(np.mean(values)) for values in found if values), default=math.nan)
