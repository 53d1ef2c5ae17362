"""``fedgt bench import``: how long an institution waits for ``fedgt data import``."""

import tempfile
from pathlib import Path

from experiments.benchmarks.measure import machine
from experiments.benchmarks.process import OwnProcess
from experiments.benchmarks.progress import Progress
from experiments.benchmarks.report import Report, Row, Table
from experiments.benchmarks.tables import measure_import, write_uniform_tables

NODES, EDGES = 1_000_000, 10_000_000


def bench(nodes: int, edges: int, progress: Progress) -> Report:
    """Import the same generated tables once as CSV and once as Parquet."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        progress(f"generating {nodes:,} nodes and {edges:,} edges")
        OwnProcess().run(write_uniform_tables, name, nodes, edges)
        for kind in ("csv", "parquet"):
            progress(f"importing {kind}")
            process = OwnProcess(one_thread=False)
            cost = process.run(measure_import, name, kind, str(folder / kind))
            rows.append(cost | {"format": kind, "nodes": nodes, "edges": edges})
    headings = {
        "format": "format",
        "nodes": "nodes",
        "edges": "edges",
        "wall": "seconds",
        "cpu": "CPU s",
        "peak_mb": "peak, MB",
    }
    return Report(
        bench="import",
        command=f"fedgt bench import --nodes {nodes} --edges {edges}",
        machine=machine(),
        tables=(Table.of("formats", "'fedgt data import'", headings, rows),),
        notes=("32 columns, all cores, one run.",),
    )
