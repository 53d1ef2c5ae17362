"""``fedgt bench prepare``: personalised PageRank and Laplacian encoding before the first round."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deploy.settings import resolve_settings
from experiments.benchmarks.exact_ppr import carried_mass, dense_ppr
from experiments.benchmarks.graphs import make_graph
from experiments.benchmarks.measure import machine, measured
from experiments.benchmarks.process import OwnProcess
from experiments.benchmarks.progress import Progress
from experiments.benchmarks.report import Report, Row, Table, ratio
from fedgt_client.graph import Graph
from fedgt_client.preprocess.cache import POOL_FACTOR
from fedgt_client.preprocess.laplacian import laplacian_encoding
from fedgt_client.preprocess.samplers import pool_builder

# Small enough for the dense inverse.
COMPARED = (
    ("communities", 2000),
    ("communities", 5000),
    ("social", 2000),
    ("social", 4600),
    ("chain", 5000),
)
SIZES = (10_000, 40_000)

_CARRIED = 0.98  # of the mass: a node's candidates are then as good as exact ones
_REPEATS = 3
_MB = 1e6


def bench(
    compared: Sequence[tuple[str, int]], kind: str, sizes: Sequence[int], progress: Progress
) -> Report:
    """Measure graphs beside the peers, then larger graphs of one kind alone."""
    rows = []
    for name, nodes in compared:
        progress(f"{name}, {nodes:,} nodes, with peers")
        row = OwnProcess().run(measure_preparation, name, nodes, quality=True)
        row |= OwnProcess().run(measure_dense_inverse, name, nodes)
        row |= OwnProcess().run(measure_get_ppr, name, nodes)
        row["of_inverse"] = ratio(row["ppr_cpu"], row["inverse_cpu"])
        row["of_get_ppr"] = ratio(row["ppr_cpu"], row["get_ppr_cpu"])
        rows.append(row)
    for nodes in sizes:
        progress(f"{kind}, {nodes:,} nodes")
        rows.append(OwnProcess().run(measure_preparation, kind, nodes, quality=False))
    command = f"fedgt bench prepare{'' if compared else ' --no-peers'} --kind {kind}"
    return Report(
        bench="prepare",
        command=command + "".join(f" --nodes {nodes}" for nodes in sizes),
        machine=machine(),
        tables=(_costs(rows), _peers(rows[: len(compared)])),
        notes=(
            "CPU seconds of one thread, the shortest of up to three runs; compilation is not "
            "counted but shown. MB are the growth of resident memory above the graph.",
            "Quality: of the PPR mass of the exact strongest 16 nodes (dense inverse), the share "
            "that the chosen 16 carry; mean over nodes, and nodes with at least 0.98.",
        ),
    )


def _costs(rows: Sequence[Row]) -> Table:
    headings = {
        "graph": "graph",
        "nodes": "nodes",
        "links": "links",
        "largest_degree": "largest degree",
        "ppr_cpu": "PPR, CPU s",
        "ppr_ms": "ms a node",
        "ppr_mb": "MB",
        "encoding_cpu": "encoding, CPU s",
        "encoding_ms": "ms a node",
        "encoding_mb": "MB",
        "compile_cpu": "compilation, CPU s",
        "output_bytes": "result, bytes a node",
    }
    return Table.of("costs", "Preparation", headings, rows, labels=2)


def _peers(rows: Sequence[Row]) -> Table:
    headings = {
        "graph": "graph",
        "nodes": "nodes",
        "quality": "quality",
        "good_nodes": "nodes ≥ 0.98, %",
        "ppr_cpu": "PPR, CPU s",
        "inverse_cpu": "dense inverse, CPU s",
        "of_inverse": "of the inverse",
        "get_ppr_cpu": "PyG get_ppr, CPU s",
        "of_get_ppr": "of get_ppr",
        "get_ppr_quality": "its quality",
        "get_ppr_good_nodes": "its nodes ≥ 0.98, %",
    }
    return Table.of("peers", "Quality, and other ways to the same values", headings, rows, labels=2)


def measure_preparation(kind: str, nodes: int, quality: bool) -> Row:
    """Measure one graph; runs in a process of its own."""
    config = resolve_settings()
    build, size = pool_builder("ppr").build, POOL_FACTOR * config.samples
    small = make_graph(kind, min(nodes, 2000))
    _, first = measured(lambda: build(small, config, size))
    _, second = measured(lambda: build(small, config, size))
    graph = make_graph(kind, nodes)
    pool, ppr = measured(lambda: build(graph, config, size), repeats=_REPEATS)
    encoding, laplacian = measured(
        lambda: laplacian_encoding(graph, config.positional_dimensions), repeats=_REPEATS
    )
    row: Row = {
        "graph": kind,
        "nodes": graph.num_nodes,
        "links": graph.num_edges,
        "largest_degree": int(np.diff(graph.indptr).max()),
        "ppr_cpu": ppr.cpu,
        "ppr_ms": 1000 * ppr.cpu / nodes,
        "ppr_mb": ppr.growth / _MB,
        "encoding_cpu": laplacian.cpu,
        "encoding_ms": 1000 * laplacian.cpu / nodes,
        "encoding_mb": laplacian.growth / _MB,
        "compile_cpu": max(first.cpu - second.cpu, 0.0),
        "output_bytes": (pool[0].nbytes + pool[1].nbytes + encoding.nbytes) // nodes,
    }
    return row | (_quality(graph, pool[0]) if quality else {})


def measure_dense_inverse(kind: str, nodes: int) -> Row:
    """Measure the dense inverse alone, without the choice of the largest values."""
    graph, nu = make_graph(kind, nodes), resolve_settings().ppr_nu
    _, cost = measured(lambda: dense_ppr(graph, nu), repeats=_REPEATS)
    return {"inverse_cpu": cost.cpu, "inverse_mb": cost.growth / _MB}


def measure_get_ppr(kind: str, nodes: int) -> Row:
    """Measure PyG's compiled push with the same ν and tolerance."""
    import torch
    from torch_geometric.utils.ppr import get_ppr

    graph, config = make_graph(kind, nodes), resolve_settings()

    def push(graph: Graph) -> tuple[torch.Tensor, torch.Tensor]:
        links = torch.from_numpy(np.stack(graph.arcs()))
        ends, values = get_ppr(
            links, alpha=config.ppr_nu, eps=config.ppr_tolerance, num_nodes=graph.num_nodes
        )
        return ends, values

    push(make_graph(kind, 100))  # compiles
    ((starts, reached), values), cost = measured(lambda: push(graph))
    order = np.lexsort((-values.numpy(), starts.numpy()))
    chosen = _first_of_rows(starts.numpy()[order], reached.numpy()[order], graph, config.samples)
    found = _quality(graph, chosen)
    return {
        "get_ppr_cpu": cost.cpu,
        "get_ppr_quality": found["quality"],
        "get_ppr_good_nodes": found["good_nodes"],
    }


def _first_of_rows(
    rows: NDArray[np.int64], columns: NDArray[np.int64], graph: Graph, count: int
) -> NDArray[np.int32]:
    """Return the first ``count`` columns of each row, the row itself left out, padded with -1."""
    others = rows != columns
    rows, columns = rows[others], columns[others]
    sizes = np.bincount(rows, minlength=graph.num_nodes)
    rank = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = np.full((graph.num_nodes, count), -1, np.int32)
    top = rank < count
    chosen[rows[top], rank[top]] = columns[top]
    return chosen


def _quality(graph: Graph, neighbours: NDArray[np.int32]) -> Row:
    config = resolve_settings()
    share = carried_mass(dense_ppr(graph, config.ppr_nu), neighbours, config.samples)
    return {
        "quality": float(share.mean()),
        "good_nodes": 100 * float((share >= _CARRIED).mean()),
    }
