"""The numbers of runs as an Arrow table."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from fedgt_server.report.table import result_rows

_SCHEMA = pa.schema(
    {
        "run": pa.string(),
        "method": pa.string(),
        "institution": pa.string(),
        "round": pa.int64(),
        "metric": pa.string(),
        "value": pa.float64(),
    }
)


def results_table(folders: Sequence[Path]) -> pa.Table:
    """Return every number of the runs in ``folders``, a row each."""
    rows = list(result_rows(folders))
    columns = zip(*rows, strict=True) if rows else [()] * len(_SCHEMA)
    arrays = [
        pa.array([float(v) for v in column] if field.name == "value" else column, field.type)
        for field, column in zip(_SCHEMA, columns, strict=True)
    ]
    return pa.table(arrays, schema=_SCHEMA)
