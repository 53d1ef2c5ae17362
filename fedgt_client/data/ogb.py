"""Read ogbn-arxiv from the files of the ``ogb`` package, without the package.

The layout, below a folder ``ogbn_arxiv``::

    raw/edge.csv.gz           a citation per row: source, target (1,166,243 rows)
    raw/node-feat.csv.gz      128 numbers per row, a row per node (169,343 rows)
    raw/node-label.csv.gz     a class 0..39 per row
    raw/num-node-list.csv.gz  one row: the number of nodes (checked if present)
    mapping/labelidx2arxivcategeory.csv.gz   names of the classes (used if present)
    split/time/...            the benchmark's own split (the paper splits at random instead)

Citations become undirected links. Features are the benchmark's dense embeddings, unchanged as in
the paper's predecessors: scaling a row of positive and negative numbers to sum to 1 would make no
sense.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyarrow import ArrowException, csv

from fedgt_client.csr import undirected
from fedgt_client.graph import UNLABELLED, Graph
from shared.errors import FedGTError

FILES = ("raw/edge.csv.gz", "raw/node-feat.csv.gz", "raw/node-label.csv.gz")
CLASS_NAMES = tuple(f"class-{index}" for index in range(40))

_NODE_COUNT = "raw/num-node-list.csv.gz"
_CLASS_NAMES = "mapping/labelidx2arxivcategeory.csv.gz"  # the misspelling is theirs
EXTRAS = (_NODE_COUNT, _CLASS_NAMES)  # used if present


def read_graph(folder: Path) -> Graph:
    """Read the whole graph from ``folder``."""
    edges, features, labels = (_read_numbers(folder / file) for file in FILES)
    nodes = len(features)
    _check_node_count(folder, nodes)
    links = _whole_numbers(folder / FILES[0], edges, 2, 0, nodes - 1)
    if labels.shape != (nodes, 1):
        raise FedGTError(
            f"{folder / FILES[2]} has shape {labels.shape}, expected ({nodes}, 1) "
            f"as {folder / FILES[1]} has {nodes} rows"
        )
    labels = np.where(np.isnan(labels), UNLABELLED, labels)
    classes = _whole_numbers(folder / FILES[2], labels, 1, UNLABELLED, len(CLASS_NAMES) - 1)
    if not np.isfinite(features).all():
        row = int(np.flatnonzero(~np.isfinite(features).all(axis=1))[0]) + 1
        raise FedGTError(f"{folder / FILES[1]}, row {row}: a value is missing or not finite")
    indptr, indices = undirected(links[:, 0], links[:, 1], nodes)
    unset = np.zeros(nodes, np.bool_)
    return Graph(
        indptr=indptr,
        indices=indices,
        features=features.astype(np.float32),
        labels=classes[:, 0],
        train=unset,
        val=unset,
        test=unset,
        feature_names=tuple(f"embedding-{column}" for column in range(features.shape[1])),
        class_names=_class_names(folder),
    )


def _read_numbers(path: Path) -> NDArray[np.float64]:
    """Read a CSV file without a header as a matrix, shape (rows, columns); empty cells are NaN."""
    try:
        table = csv.read_csv(path, read_options=csv.ReadOptions(autogenerate_column_names=True))
        columns = [column.to_numpy().astype(np.float64) for column in table.itercolumns()]
    except (ArrowException, OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else "it is damaged"
        raise FedGTError(f"{path} cannot be read as numbers: {reason}") from None
    return np.stack(columns, axis=1)


def _whole_numbers(
    path: Path, matrix: NDArray[np.float64], columns: int, lowest: int, highest: int
) -> NDArray[np.int64]:
    """Convert the matrix to integers within the given bounds."""
    if matrix.shape[1] != columns:
        raise FedGTError(f"{path} has {matrix.shape[1]} columns, expected {columns}")
    good = (matrix >= lowest) & (matrix <= highest) & (matrix == np.floor(matrix))
    if not good.all():
        row = int(np.flatnonzero(~good.all(axis=1))[0]) + 1
        raise FedGTError(f"{path}, row {row}: expected whole numbers {lowest}..{highest}")
    return matrix.astype(np.int64)


def _check_node_count(folder: Path, nodes: int) -> None:
    path = folder / _NODE_COUNT
    if path.is_file() and (said := _read_numbers(path)[0, 0]) != nodes:
        raise FedGTError(f"{path} says {said:.0f} nodes, {folder / FILES[1]} has {nodes} rows")


def _class_names(folder: Path) -> tuple[str, ...]:
    path = folder / _CLASS_NAMES
    if not path.is_file():
        return CLASS_NAMES
    try:
        names = csv.read_csv(path).column(1).to_pylist()
    except (ArrowException, OSError, IndexError):
        raise FedGTError(f"{path} cannot be read: it is damaged, get it again") from None
    return tuple(str(name) for name in names) if len(names) == len(CLASS_NAMES) else CLASS_NAMES
