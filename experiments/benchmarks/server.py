"""``fedgt bench server``: the coordinator's part of a round beside the bare matrix product."""

import json
import math
import tempfile
import time
from collections.abc import Sequence

import numpy as np

from deploy.settings import resolve_settings
from experiments.benchmarks.measure import machine, measured
from experiments.benchmarks.process import OwnProcess
from experiments.benchmarks.progress import Progress
from experiments.benchmarks.report import Report, Row, Table, ratio
from fedgt_server.methods import server_method
from shared.wire import GLOBAL_NODES, Update

# Institutions and parameters; in the last one the comparison of institutions is nearly all.
CASES = ((400, 400_000), (1000, 400_000), (1000, 1000))
_COLUMNS = 4096  # of the bare product, whose time is proportional to them
_MB = 1e6


def bench(cases: Sequence[tuple[int, int]], progress: Progress) -> Report:
    """Measure every case, each in a process of its own."""
    rows = []
    for institutions, parameters in cases:
        progress(f"{institutions:,} institutions, {parameters:,} parameters")
        with tempfile.TemporaryDirectory() as folder:
            row = OwnProcess().run(measure_aggregation, institutions, parameters, folder)
        row |= OwnProcess().run(measure_product, institutions, parameters)
        row["of_product"] = ratio(row["cpu"], row["product_cpu"])
        rows.append(row)
    headings = {
        "institutions": "institutions",
        "parameters": "parameters",
        "cpu": "CPU s",
        "product_cpu": "matrix product, CPU s",
        "of_product": "of the product",
        "updates_mb": "updates, MB",
        "peak_mb": "peak, MB",
        "of_updates": "of the updates",
        "journal_mb": "journal, MB",
    }
    return Report(
        bench="server",
        command="fedgt bench server"
        + "".join(f" --case {institutions}x{size}" for institutions, size in cases),
        machine=machine(),
        tables=(Table.of("cases", "Aggregation of a round", headings, rows, labels=2),),
        notes=(
            "From all updates, unpacked, to the message of every institution: comparison by "
            "optimal transport, weights, averages of models and global nodes. One thread. The "
            "product is float32, (M, M) by (M, P), shortest of three. Updates are taken in as "
            "they come; the peak holds the models that the coordinator keeps in memory and all "
            "that aggregation needs.",
        ),
    )


def measure_aggregation(institutions: int, parameters: int, folder: str) -> Row:
    """Measure a round of made-up updates; runs in a process of its own."""
    config = resolve_settings({"method": "fedgt", "results-dir": folder})
    names = [f"institution-{index:05d}" for index in range(institutions)]
    shapes = {
        "weights": (parameters,),
        GLOBAL_NODES: (config.layers + 1, config.global_nodes, config.hidden),
    }
    method = server_method(config)
    method.begin({"weights": np.zeros(parameters, np.float32)})
    rng, made = np.random.default_rng(0), []

    def make_update(name: str) -> Update:
        started = time.process_time()
        arrays = {key: rng.standard_normal(shape, np.float32) for key, shape in shapes.items()}
        made.append(time.process_time() - started)
        return Update(name, arrays, {})

    def one_round() -> int:
        for name in names:
            method.message(name)
        report = method.aggregate({name: method.receive(name, make_update(name)) for name in names})
        for name in names:
            method.message(name)
        return len(json.dumps(report.facts))

    journal, cost = measured(one_round)
    size = 4 * institutions * sum(math.prod(shape) for shape in shapes.values())
    return {
        "institutions": institutions,
        "parameters": parameters,
        "cpu": cost.cpu - sum(made),
        "updates_mb": size / _MB,
        "peak_mb": cost.growth / _MB,
        "of_updates": cost.growth / size,
        "journal_mb": journal / _MB,
    }


def measure_product(institutions: int, parameters: int) -> Row:
    """Measure the product that no average can do without, from a part of its columns."""
    rng = np.random.default_rng(0)
    columns = min(parameters, _COLUMNS)
    weights = rng.random((institutions, institutions), dtype=np.float32)
    models = rng.standard_normal((institutions, columns), dtype=np.float32)
    _, cost = measured(lambda: weights @ models, repeats=3)
    return {"product_cpu": cost.cpu * parameters / columns}
