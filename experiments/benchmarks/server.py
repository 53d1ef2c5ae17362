"""``fedgt bench server``: the coordinator's part of a round beside the bare matrix product."""

import json
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
CASES = ((400, 400_000), (1000, 100_000), (1000, 1000))
_MB = 1e6


def bench(cases: Sequence[tuple[int, int]], progress: Progress) -> Report:
    """Measure every case, each in a process of its own."""
    rows = []
    for institutions, parameters in cases:
        progress(f"{institutions:,} institutions, {parameters:,} parameters")
        row = OwnProcess().run(measure_aggregation, institutions, parameters)
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
        "held_mb": "peak with them, MB",
        "of_updates": "of the updates",
        "journal_mb": "journal, MB",
    }
    return Report(
        bench="server",
        command="fedgt bench server"
        + "".join(f" --case {institutions}x{size}" for institutions, size in cases),
        machine=machine(),
        tables=(Table.of("cases", "Aggregation of a round", headings, rows),),
        notes=(
            "From all updates, unpacked, to the message of every institution: comparison by "
            "optimal transport, weights, averages of models and global nodes. One thread. The "
            "product is float32, (M, M) by (M, P), shortest of three. The peak counts the "
            "updates, the models that the coordinator keeps and all that aggregation needs.",
        ),
    )


def measure_aggregation(institutions: int, parameters: int) -> Row:
    """Measure the second round of made-up updates; runs in a process of its own."""
    config = resolve_settings({"method": "fedgt"})
    rng = np.random.default_rng(0)
    names = [f"institution-{index:05d}" for index in range(institutions)]
    shape = (config.layers + 1, config.global_nodes, config.hidden)
    method = server_method(config)
    method.begin({"weights": np.zeros(parameters, np.float32)})
    updates = {
        name: Update(
            name,
            {
                "weights": rng.standard_normal(parameters, dtype=np.float32),
                GLOBAL_NODES: rng.standard_normal(shape, dtype=np.float32),
            },
            {},
        )
        for name in names
    }

    def one_round() -> int:
        for name in names:
            method.message(name)
        report = method.aggregate(updates)
        for name in names:
            method.message(name)
        return len(json.dumps(report.facts))

    journal, cost = measured(one_round)
    size = sum(array.nbytes for update in updates.values() for array in update.arrays.values())
    return {
        "institutions": institutions,
        "parameters": parameters,
        "cpu": cost.cpu,
        "updates_mb": size / _MB,
        "held_mb": (size + cost.growth) / _MB,
        "of_updates": (size + cost.growth) / size,
        "journal_mb": journal / _MB,
    }


def measure_product(institutions: int, parameters: int) -> Row:
    """Measure the product that no average can do without."""
    rng = np.random.default_rng(0)
    weights = rng.random((institutions, institutions), dtype=np.float32)
    models = rng.standard_normal((institutions, parameters), dtype=np.float32)
    _, cost = measured(lambda: weights @ models, repeats=3)
    return {"product_cpu": cost.cpu}
