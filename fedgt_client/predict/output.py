"""Write predictions to a file."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from fedgt_client.data.own_data import OwnData
from fedgt_client.predict.model import Model
from fedgt_client.predict.table import prediction_batches, prediction_schema
from shared.errors import FedGTError
from shared.files import Array, atomic_file, check_writable

FORMATS = (".csv", ".parquet")


def check_output(target: Path, *, force: bool, suffixes: tuple[str, ...] = FORMATS) -> None:
    """Raise FedGTError for an output file that cannot be written, before any work is done."""
    if target.suffix.lower() not in suffixes:
        named = " or ".join(suffixes)
        raise FedGTError(f"{target}: the name must end in {named} to say what to write")
    if target.is_dir():
        raise FedGTError(f"{target} is a folder: choose another file")
    if target.exists() and not force:
        raise FedGTError(f"{target} exists already: choose another file or add --force")
    if not target.absolute().parent.is_dir():
        raise FedGTError(f"{target} cannot be written: {target.parent} is not a folder")
    check_writable(target)


def write_predictions(
    model: Model,
    data: OwnData,
    scores: Array,
    target: Path,
    *,
    only_new: bool = False,
    progress: Callable[[int], None] = lambda rows: None,
) -> int:
    """Write predictions as .parquet or .csv, whole or not at all; return the number of rows.

    ``progress`` is told the number of rows after each batch.
    """
    nodes = np.flatnonzero(data.new) if only_new else np.arange(data.graph.num_nodes)
    schema = prediction_schema(model.class_names, model.describe())
    batches = prediction_batches(schema, model.calibration, data, scores, nodes)
    with atomic_file(target) as staging:
        _write(batches, schema, staging, target.suffix.lower(), progress)
    return len(nodes)


def _write(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    path: Path,
    suffix: str,
    progress: Callable[[int], None],
) -> None:
    make = pq.ParquetWriter if suffix == ".parquet" else arrow_csv.CSVWriter
    written = 0
    with make(str(path), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            written += batch.num_rows
            progress(written)
