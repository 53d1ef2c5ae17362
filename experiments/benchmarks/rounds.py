"""``fedgt bench round``: a whole run in one process beside one whose clients do nothing."""

import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from deploy.engines.in_process import run_in_process, with_output_paths
from deploy.settings import resolve_settings
from experiments.benchmarks import no_op
from experiments.benchmarks.measure import machine, measured
from experiments.benchmarks.process import OwnProcess
from experiments.benchmarks.progress import Progress
from experiments.benchmarks.report import Report, Row, Table, ratio
from fedgt_client.data.catalog import find_raw_files
from fedgt_client.data.subgraph import open_institution
from fedgt_client.node import NodeConfig
from shared.config import Scalar

ROUNDS, INSTITUTIONS = 100, 10
_MB = 1e6
# Title, method, whether states and checkpoints are written.
_RUNS = (
    ("FedGT", "fedgt", True),
    ("FedGT, checkpoints off", "fedgt", False),
    ("no-op clients", no_op.NAME, True),
    ("no-op clients, checkpoints off", no_op.NAME, False),
)


def bench(rounds: int, dataset: str, progress: Progress) -> Report:
    """Measure runs on Cora, or on the synthetic consortium where Cora is not found."""
    dataset = dataset or ("cora" if find_raw_files("cora") else "consortium")
    rows = []
    for title, method, checkpoints in _RUNS:
        progress(f"{title}: {rounds} rounds of {dataset}/{INSTITUTIONS}")
        with tempfile.TemporaryDirectory() as folder:
            process = OwnProcess(cache=Path(folder) / "cache")
            row = process.run(
                measure_run, method, dataset, INSTITUTIONS, rounds, folder, checkpoints
            )
        rows.append(row | {"run": title})
    framework = {True: rows[2], False: rows[3]}
    for row, (_, _, checkpoints) in zip(rows, _RUNS, strict=True):
        row["of_no_op"] = ratio(row["round_ms"], framework[checkpoints]["round_ms"])
    headings = {
        "run": "run",
        "data": "data",
        "rounds": "rounds",
        "cpu": "CPU s",
        "wall": "seconds",
        "first_cpu": "to the end of round 1, CPU s",
        "round_ms": "a later round, CPU ms",
        "of_no_op": "of the no-op's",
        "peak_mb": "peak, MB",
    }
    return Report(
        bench="round",
        command=f"fedgt bench round --rounds {rounds} --dataset {dataset}",
        machine=machine(),
        tables=(Table.of("runs", f"{INSTITUTIONS} institutions", headings, rows),),
        notes=(
            "One process, one thread; preparing the graphs counts, partitioning the dataset does "
            "not. The median of the later rounds. No-op clients upload arrays of FedGT's shapes "
            "without training: their rounds are messages, aggregation, journal and states.",
        ),
    )


def measure_run(
    method: str, dataset: str, institutions: int, rounds: int, folder: str, checkpoints: bool
) -> Row:
    """Run all rounds; runs in a process of its own."""
    no_op.register()
    values: dict[str, Scalar] = {
        "method": method,
        "dataset": dataset,
        "rounds": rounds,
        "checkpoints": checkpoints,
    }
    config = resolve_settings(with_output_paths(values, Path(folder) / "run", institutions))
    # Partition and import of torch are not part of the run.
    open_institution(NodeConfig(partition_id=0, num_partitions=institutions), config)
    moments = [time.process_time()]
    _, cost = measured(
        lambda: run_in_process(config, institutions, lambda _: moments.append(time.process_time()))
    )
    each = [after - before for before, after in pairwise(moments)]
    return {
        "data": f"{dataset}/{institutions}",
        "rounds": rounds,
        "cpu": cost.cpu,
        "wall": cost.wall,
        "first_cpu": each[0],
        "round_ms": 1000 * statistics.median(each[1:]) if rounds > 1 else None,
        "mean_round_ms": 1000 * statistics.fmean(each[1:] or each),
        "peak_mb": cost.peak / _MB,
    }
