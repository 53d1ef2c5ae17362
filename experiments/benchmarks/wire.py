"""``fedgt bench wire``: what a round sends, and what packing it costs."""

import tempfile
from pathlib import Path

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord

from deploy.engines.in_process import run_institutions, with_output_paths
from deploy.settings import resolve_settings
from experiments.benchmarks.graphs import cora_sized
from experiments.benchmarks.measure import machine, measured
from experiments.benchmarks.process import OwnProcess
from experiments.benchmarks.progress import Progress
from experiments.benchmarks.report import Report, Row, Table, ratio
from fedgt_client.methods import client_method
from fedgt_client.node import NodeConfig
from fedgt_server.events import RoundEvent
from shared.wire import Update

ROUNDS = 3
_INSTITUTIONS = 2
_METHODS = {"fedgt": "FedGT", "fedavg": "FedAvg-GraphSAGE"}
_REFERENCE = "FedAvg-GraphSAGE, plain float32"
_REPEATS = 20


def bench(rounds: int, progress: Progress) -> Report:
    """Measure the messages of both methods on a graph of Cora's size."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cora_sized().save(folder / "graph")
        process = OwnProcess(cache=folder / "cache")
        progress(_REFERENCE)
        reference = process.run(measure_reference) | {"method": _REFERENCE}
        rows = [reference]
        for method, title in _METHODS.items():
            progress(f"{title}: {rounds} rounds in one process")
            row = process.run(measure_messages, method, rounds, name) | {"method": title}
            rows.append(row | process.run(measure_packing, method))
    for row in rows:
        row["up_of_float32"] = ratio(row["up"], reference["up"])
        row["down_of_float32"] = ratio(row["down"], reference["down"])
    headings = {
        "method": "method",
        "up": "bytes up",
        "up_of_float32": "of plain FedAvg's",
        "down": "bytes down",
        "down_of_float32": "of plain FedAvg's",
        "parameters": "parameters",
        "encode_ms": "pack an update, CPU ms",
        "decode_ms": "unpack, CPU ms",
    }
    return Report(
        bench="wire",
        command=f"fedgt bench wire --rounds {rounds}",
        machine=machine(),
        tables=(Table.of("messages", "One institution, one round", headings, rows),),
        notes=(
            "1,433 features, 7 classes. Bytes of all records of the last round's messages, as the "
            "journal counts them. Plain: GraphSAGE's parameters as Flower's float32 ArrayRecord.",
        ),
    )


def measure_messages(method: str, rounds: int, folder: str) -> Row:
    """Run a small federation and return the bytes of an institution in its last round."""
    nodes = [
        NodeConfig(institution=f"institution-{index}", data_dir=str(Path(folder) / "graph"))
        for index in range(_INSTITUTIONS)
    ]
    events: list[RoundEvent] = []
    out = Path(folder) / method
    values = with_output_paths({"method": method, "rounds": rounds}, out, len(nodes))
    run_institutions(resolve_settings(values | {"checkpoints": False}), nodes, events.append)
    at = next(iter(events[-1].institutions.values()))
    return {"up": at.bytes_up, "down": at.bytes_down}


def measure_reference() -> Row:
    """Return the bytes of GraphSAGE's parameters as Flower sends arrays by itself."""
    client = client_method(cora_sized(), resolve_settings({"method": "fedavg"}), "bench")
    arrays = client.initial_arrays()
    packed = {name: FlowerArray(array.astype(np.float32)) for name, array in arrays.items()}
    size = ArrayRecord(packed).count_bytes()
    return {"up": size, "down": size, "parameters": sum(array.size for array in arrays.values())}


def measure_packing(method: str) -> Row:
    """Return CPU milliseconds to pack and to unpack one update of a real round."""
    config = resolve_settings({"method": method})
    client = client_method(cora_sized(), config, "bench")
    initial = client.initial_arrays()
    result = client.fit(initial, 1)
    update = Update("bench", result.upload, result.metrics)
    records, packing = measured(lambda: update.to_records(config.wire_precision), repeats=_REPEATS)
    _, unpacking = measured(lambda: Update.from_records(records), repeats=_REPEATS)
    return {
        "parameters": sum(array.size for array in initial.values()),
        "encode_ms": 1000 * packing.cpu,
        "decode_ms": 1000 * unpacking.cpu,
    }
