"""Made-up reports for the documents' tables."""

from pathlib import Path

from experiments.benchmarks.report import Report, Row, Table

MACHINE: Row = {"processor": "P", "cores": 2, "memory_gib": 8.0, "torch": "2", "load": 0.0}


def save(folder: Path, bench: str, table: str, *rows: Row) -> None:
    """Write a report of one table."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{bench}.json"
    tables = Report.model_validate_json(path.read_bytes()).tables if path.exists() else ()
    made = Table.of(table, "Title", {key: key for key in rows[0]}, rows)
    report = Report(
        bench=bench, command=f"fedgt bench {bench}", machine=MACHINE, tables=(*tables, made)
    )
    path.write_text(report.model_dump_json())
