"""Labels and probabilities for nodes, with a model that an institution has trained.

Prediction needs neither coordinator nor network nor Flower: only the model and a graph.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from fedgt_client.assessment import assess
from fedgt_client.data.own_data import OwnData
from fedgt_client.model_source import Source, open_source
from fedgt_client.prediction_table import prediction_batches, prediction_schema
from fedgt_client.trained_model import Model
from shared.errors import FedGTError
from shared.files import Array, atomic_file

__all__ = ["Model", "OwnData", "calibrated", "load_model", "open_data", "write_predictions"]

_FORMATS = (".csv", ".parquet")


def load_model(folder: Path | str, *, run: str = "", institution: str = "") -> Model:
    """Load the best model in ``folder``: a kit, a run's folder or state, or an exported model.

    Probabilities are calibrated where the model was exported, or evaluated by 'fedgt evaluate'.

    Parameters
    ----------
    run : of several runs in a kit; by default the one with the newest model
    institution : of several in the folder of a run
    """
    return open_source(Path(folder), run=run, institution=institution).model


def open_data(folder: Path | str) -> OwnData:
    """Open a graph with its ids, as 'fedgt data import' wrote it."""
    return OwnData.open(Path(folder))


def calibrated(source: Source, data: OwnData, scores: Array) -> Source:
    """Return a source whose model is calibrated, on ``data`` that it was trained on.

    The calibration is kept beside the model, if that folder can be written to.
    """
    if source.assessment is not None:
        return source
    assessment = assess(source.model, data, scores, source.rule)
    if os.access(source.folder, os.W_OK):
        assessment.write(source.folder)
    model = source.model.with_calibration(assessment.calibration)
    return replace(source, model=model, assessment=assessment, rule=assessment.rule)


def check_output(target: Path, *, force: bool) -> None:
    """Raise FedGTError for an output file that cannot be written, before any work is done."""
    if target.suffix.lower() not in _FORMATS:
        raise FedGTError(f"{target}: the name must end in .csv or .parquet to say what to write")
    if target.exists() and not force:
        raise FedGTError(f"{target} exists already: choose another file or add --force")
    if not target.absolute().parent.is_dir():
        raise FedGTError(f"{target} cannot be written: {target.parent} is not a folder")


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
