"""``fedgt bench social``: six institutions with social graphs, from imported folders to round 1."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from deploy.engines.in_process import run_institutions, with_output_paths
from deploy.settings import resolve_settings
from experiments.benchmarks.measure import machine, measured
from experiments.benchmarks.process import OwnProcess
from experiments.benchmarks.progress import Progress
from experiments.benchmarks.report import Report, Row, Table
from experiments.benchmarks.tables import measure_import, write_social_tables
from fedgt_client.node import NodeConfig

SIZES = (2000, 3500, 5000, 6500, 8000, 9500)
_MB = 1e6


def bench(sizes: Sequence[int], progress: Progress) -> Report:
    """Import each institution's tables, then run one round in a new process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        links, started = 0, time.perf_counter()
        for index, nodes in enumerate(sizes):
            progress(f"importing institution {index + 1} of {len(sizes)}: {nodes:,} nodes")
            tables = folder / f"tables-{index}"
            tables.mkdir()
            made = OwnProcess().run(write_social_tables, str(tables), nodes, index)
            links += int(str(made["links"]))
            out = folder / f"institution-{index}"
            OwnProcess(one_thread=False).run(measure_import, str(tables), "parquet", str(out))
        importing = time.perf_counter() - started
        progress("preparing, and round 1")
        process = OwnProcess(one_thread=False, cache=folder / "cache")
        row = process.run(measure_first_round, name, len(sizes))
    row |= {"institutions": len(sizes), "nodes": sum(sizes), "links": links, "import": importing}
    headings = {
        "institutions": "institutions",
        "nodes": "nodes in all",
        "links": "links in all",
        "wall": "seconds",
        "cpu": "CPU s",
        "peak_mb": "peak, MB",
        "import": "making and importing the tables, seconds",
    }
    return Report(
        bench="social",
        command="fedgt bench social" + "".join(f" --nodes {nodes}" for nodes in sizes),
        machine=machine(),
        tables=(
            Table.of("run", "From the imported folders to the end of round 1", headings, [row]),
        ),
        notes=(
            "404 columns, hubs that link to a tenth of their institution's nodes; all "
            "institutions in one process, default settings.",
        ),
    )


def measure_first_round(folder: str, institutions: int) -> Row:
    """Open and prepare all graphs and run one round; runs in a process of its own."""
    nodes = [
        NodeConfig(
            institution=f"institution-{index}", data_dir=str(Path(folder) / f"institution-{index}")
        )
        for index in range(institutions)
    ]
    values = with_output_paths({"rounds": 1}, Path(folder) / "run", institutions)
    config = resolve_settings(values)
    _, cost = measured(lambda: run_institutions(config, nodes))
    return {"wall": cost.wall, "cpu": cost.cpu, "peak_mb": cost.peak / _MB}
