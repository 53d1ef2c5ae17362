"""The table of predictions: a row for every node."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fedgt_client.data.own_data import OwnData
from fedgt_client.graph import SPLITS, UNLABELLED, Graph
from fedgt_client.predict.calibration import Calibration
from shared.files import Array

ROWS = 65_536  # of a batch


def prediction_schema(class_names: tuple[str, ...], description: str) -> pa.Schema:
    """Return the columns of a table of predictions; ``description`` says of which model."""
    fields = [
        pa.field("id", pa.string()),
        pa.field("predicted", pa.string()),
        *(pa.field(f"probability_{name}", pa.float64()) for name in class_names),
        pa.field("labelled", pa.bool_()),
        pa.field("split", pa.string()),
        pa.field("linked", pa.bool_()),
        pa.field("new", pa.bool_()),
    ]
    return pa.schema(fields, metadata={"fedgt_model": description})


def prediction_batches(
    schema: pa.Schema,
    calibration: Calibration,
    data: OwnData,
    scores: Array,
    nodes: NDArray[np.int64] | None = None,
    rows: int = ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield predictions for ``nodes`` (by default all), ``rows`` at a time.

    ``scores`` are those of all nodes, shape (n, classes).
    """
    graph, names = data.graph, np.array(data.graph.class_names)
    chosen = np.arange(graph.num_nodes) if nodes is None else nodes
    linked = data.linked()
    for start in range(0, len(chosen), rows):
        part = chosen[start : start + rows]
        probabilities = calibration.probabilities(scores[part])
        predicted = calibration.predict(scores[part], graph.class_names)
        columns = [
            data.ids.take(pa.array(part)),
            pa.array(names[predicted]),
            *(pa.array(column) for column in probabilities.T),
            pa.array(graph.labels[part] != UNLABELLED),
            pa.array(_splits(graph, part), pa.string()),
            pa.array(linked[part]),
            pa.array(data.new[part]),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _splits(graph: Graph, nodes: NDArray[np.int64]) -> list[str | None]:
    """Return the split of each node, None where it is in none."""
    found = np.full(len(nodes), None, dtype=object)
    for name in SPLITS:
        found[getattr(graph, name)[nodes]] = name
    return list(found)
