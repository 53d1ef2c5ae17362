"""``fedgt results``: the numbers of runs as a table for other programs."""

import csv
import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TextIO

import typer

from fedgt_server.report.table import Row, result_rows
from shared.errors import FedGTError
from shared.files import atomic_file


class Format(StrEnum):
    """How the table is written."""

    csv = "csv"
    json = "json"
    parquet = "parquet"


def results(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs, or of comparisons.")],
    format: Annotated[Format, typer.Option(help="Of the table.")] = Format.csv,
    out: Annotated[
        Path | None, typer.Option(help="The file to write; default: standard output.")
    ] = None,
) -> None:
    """Write the numbers of runs as one tidy table.

    For pandas, polars or a spreadsheet. Columns: run, method, institution
    (empty: the federation), round, metric, value. Only what institutions have
    shared is in it.
    """
    if format is Format.parquet and out is None:
        raise FedGTError("a Parquet table needs a file: add --out FILE")
    if out is None:
        _write_text(sys.stdout, list(result_rows(runs)), format)
        return
    with atomic_file(out) as staging:
        if format is Format.parquet:
            count = _write_parquet(staging, runs)
        else:
            rows = list(result_rows(runs))
            count = len(rows)
            with staging.open("w", encoding="utf-8", newline="") as stream:
                _write_text(stream, rows, format)
    print(f"{out}: {count:,} numbers")


def _write_text(stream: TextIO, rows: Sequence[Row], format: Format) -> None:
    if format is Format.json:
        json.dump([row._asdict() for row in rows], stream, ensure_ascii=False)
        stream.write("\n")
        return
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(Row._fields)
    writer.writerows(rows)


def _write_parquet(path: Path, runs: Sequence[Path]) -> int:
    try:
        # Not at the coordinator's.
        import pyarrow.parquet as pq

        from deploy.results_table import results_table
    except ImportError:
        raise FedGTError(
            "a Parquet table needs pyarrow: pip install pyarrow, or take csv"
        ) from None
    table = results_table(runs)
    pq.write_table(table, path)
    return int(table.num_rows)
