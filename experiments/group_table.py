"""Whether the groups of institutions that disagree were found."""

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score

from experiments.accuracy_tables import AccuracyGrid, label_of
from experiments.grids import Experiment
from experiments.records import Records
from experiments.result_table import Column, Entry, Row, Table
from experiments.variants import VARIANTS
from fedgt_client.data.partition import CONFLICTING_GROUPS


def groups_table(item: Experiment, records: Records) -> Table:
    """Build the adjusted Rand index of the groups that similarities make and the true ones."""
    found: dict[str, dict[str, list[float]]] = {}
    for job, record in sorted(records.items(), key=lambda pair: pair[0].name):
        if similarity := record.get("similarity"):
            index = rand_index(last_matrix(similarity["matrices"]))
            found.setdefault(job.row, {}).setdefault(job.cell, []).append(index)
    grid = AccuracyGrid.of(item, records)
    rows = [
        Row(label_of(name), tuple(Entry.of(found.get(name, {}).get(c, [])) for c in grid.columns))
        for name in grid.values
        if name in VARIANTS and VARIANTS[name].method in ("fedgt", "fedpub")
    ]
    note = (
        "Adjusted Rand index of the institutions' true groups and those that average linkage of "
        "the last round's similarities makes: 1 is the same groups, 0 is chance."
    )
    columns = tuple(Column(heading) for heading in grid.headings())
    return Table(f"{item.title}: groups found", "method", columns, tuple(rows), (note,))


def last_matrix(matrices: dict[str, list[list[float]]]) -> NDArray[np.float64]:
    """Return the similarities of the last round that a record holds, shape (M, M)."""
    return np.array(matrices[max(matrices, key=int)], np.float64)


def rand_index(similarity: NDArray[np.float64]) -> float:
    """Compare the groups in a similarity, shape (M, M), with institution i being of i mod groups.

    Institutions are in the order of their names, which is that of the partition.
    """
    distances = 1.0 - (similarity + similarity.T) / 2.0
    np.fill_diagonal(distances, 0.0)
    tree = linkage(squareform(distances, checks=False), "average")
    true = np.arange(len(similarity)) % CONFLICTING_GROUPS
    return float(adjusted_rand_score(true, fcluster(tree, CONFLICTING_GROUPS, "maxclust")))
