"""``fedgt bench scale``: one institution from opening its graph to the end of round 1."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from deploy.settings import resolve_settings
from experiments.benchmarks.graphs import communities, with_data
from experiments.benchmarks.measure import machine, measured, peak_bytes
from experiments.benchmarks.process import OwnProcess
from experiments.benchmarks.progress import Progress
from experiments.benchmarks.report import Report, Row, Table, number
from fedgt_client.client import FedGTClient
from fedgt_client.node import NodeConfig

SIZES = (10_000, 40_000, 160_000)
FEATURES, CLASSES, TRAIN = 128, 10, 0.05
_MB = 1e6


def bench(sizes: Sequence[int], sampler: str, progress: Progress) -> Report:
    """Measure each size in a process of its own."""
    rows = []
    for nodes in sizes:
        progress(f"{nodes:,} nodes")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            # Not in the measured process, where it would add to the peak.
            made = OwnProcess().run(save_graph, nodes, str(folder / "graph"))
            process = OwnProcess(cache=folder / "cache")
            row = made | process.run(measure_institution, name, sampler)
            row["ms"] = 1000 * number(row, "cpu") / nodes
            rows.append(row)
    headings = {
        "nodes": "nodes",
        "links": "links",
        "cpu": "CPU s",
        "wall": "seconds",
        "ms": "CPU ms a node",
        "open_cpu": "opening and preparing, CPU s",
        "round_cpu": "round 1, CPU s",
        "peak_mb": "peak, MB",
        "start_mb": "of it before, MB",
    }
    return Report(
        bench="scale",
        command=f"fedgt bench scale --sampler {sampler}"
        + "".join(f" --nodes {nodes}" for nodes in sizes),
        machine=machine(),
        tables=(Table.of("sizes", "From the folder to the end of round 1", headings, rows),),
        notes=(
            f"One institution with {FEATURES} features and {TRAIN:.0%} training labels; all other "
            "nodes are validated or tested. One thread, one run. The peak is of the whole "
            "process; 'before' is what its libraries hold when it starts to open the graph.",
        ),
    )


def save_graph(nodes: int, folder: str) -> Row:
    """Write the institution's graph."""
    data = with_data(communities(nodes), features=FEATURES, classes=CLASSES, train=TRAIN)
    data.save(Path(folder))
    return {"nodes": nodes, "links": data.num_edges}


def measure_institution(folder: str, sampler: str) -> Row:
    """Open, prepare and train for a round; runs in a process of its own."""
    config = resolve_settings({"sampler": sampler})
    node = NodeConfig(
        institution="bench",
        data_dir=str(Path(folder) / "graph"),
        state_dir=str(Path(folder) / "state"),
    )
    start = peak_bytes()
    client, opening = measured(lambda: FedGTClient.open(node, config, "bench"))
    _, training = measured(lambda: client.fit(client.get_parameters({}), {"round": 1}))
    return {
        "cpu": opening.cpu + training.cpu,
        "wall": opening.wall + training.wall,
        "open_cpu": opening.cpu,
        "round_cpu": training.cpu,
        "peak_mb": max(opening.peak, training.peak) / _MB,
        "start_mb": start / _MB,
    }
