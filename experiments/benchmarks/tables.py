"""Generated tables such as an institution has, and their import by ``fedgt data import``."""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from deploy.cli.commands import command_group
from experiments.benchmarks.graphs import social
from experiments.benchmarks.measure import measured
from experiments.benchmarks.report import Row
from fedgt_client.data.schema import CategoricalColumn, NumericColumn, Schema

_CLASSES = ("low", "medium", "high")
# Numeric columns, and how many categories each of the others has.
_FEW_COLUMNS = (24, (2, 3, 5, 8, 10, 12, 20, 40))
_MANY_COLUMNS = (350, tuple(2 + number % 7 for number in range(54)))

Columns = tuple[int, Sequence[int]]


def write_uniform_tables(folder: str, nodes: int, edges: int) -> Row:
    """Write nodes of 32 columns and uniform links as CSV and as Parquet, and their schema."""
    rng = np.random.default_rng(0)
    accounts = _nodes(nodes, _FEW_COLUMNS, rng)
    transfers = _edges(rng.integers(0, nodes, (2, edges)), accounts.column("account"), rng)
    for name, table in (("accounts", accounts), ("transfers", transfers)):
        arrow_csv.write_csv(table, Path(folder) / f"{name}.csv")
        pq.write_table(table, Path(folder) / f"{name}.parquet")
    _schema(_FEW_COLUMNS).save(Path(folder) / "schema.json")
    return {}


def write_social_tables(folder: str, nodes: int, seed: int) -> Row:
    """Write nodes of 404 columns and the links of a social graph as Parquet, and their schema."""
    graph, rng = social(nodes, seed), np.random.default_rng([nodes, seed])
    accounts = _nodes(nodes, _MANY_COLUMNS, rng)
    sources, targets = graph.arcs()
    once = sources < targets
    ends = np.stack([sources[once], targets[once]])
    pq.write_table(accounts, Path(folder) / "accounts.parquet")
    links = _edges(ends, accounts.column("account"), rng)
    pq.write_table(links, Path(folder) / "transfers.parquet")
    _schema(_MANY_COLUMNS).save(Path(folder) / "schema.json")
    return {"nodes": nodes, "links": graph.num_edges}


def measure_import(folder: str, kind: str, out: str) -> Row:
    """Import tables of a kind with the command; runs in a process of its own."""
    options = {
        "--nodes": f"{folder}/accounts.{kind}",
        "--edges": f"{folder}/transfers.{kind}",
        "--id": "account",
        "--label": "risk",
        "--source": "from",
        "--target": "to",
        "--schema": f"{folder}/schema.json",
        "--out": out,
    }
    flags = [part for option in options.items() for part in option]
    command = command_group()
    with redirect_stdout(io.StringIO()):
        _, cost = measured(
            lambda: command.main(["data", "import", *flags, "--json"], standalone_mode=False)
        )
    return {"cpu": cost.cpu, "wall": cost.wall, "peak_mb": cost.peak / 1e6}


def _nodes(count: int, columns: Columns, rng: np.random.Generator) -> pa.Table:
    """Generate nodes with text ids, some empty cells and mostly missing labels."""
    numeric, categories = columns
    made = {"account": pa.array([f"AC{number:09d}" for number in range(count)])}
    for place in range(numeric):
        values = np.round(rng.normal(100, 25, count), 4)
        made[f"number_{place}"] = pa.array(values, mask=rng.random(count) < 0.01)
    for place, size in enumerate(categories):
        names = pa.array([f"c{number}" for number in range(size)])
        made[f"category_{place}"] = names.take(pa.array(rng.integers(0, size, count)))
    labels = pa.array(rng.integers(0, len(_CLASSES), count), mask=rng.random(count) < 0.8)
    made["risk"] = pa.array(_CLASSES).take(labels)
    return pa.table(made)


def _edges(ends: NDArray[np.int64], ids: pa.ChunkedArray, rng: np.random.Generator) -> pa.Table:
    """Name both ends of links, shape (2, m), and add an unused third column."""
    known = ids.combine_chunks()
    return pa.table(
        {
            "from": known.take(pa.array(ends[0])),
            "to": known.take(pa.array(ends[1])),
            "amount": rng.integers(1, 10_000, ends.shape[1]),
        }
    )


def _schema(columns: Columns) -> Schema:
    numeric, categories = columns
    numbers = (NumericColumn(name=f"number_{n}", mean=100, std=25) for n in range(numeric))
    categorical = (
        CategoricalColumn(name=f"category_{place}", categories=tuple(f"c{n}" for n in range(size)))
        for place, size in enumerate(categories)
    )
    return Schema(columns=(*numbers, *categorical), labels=_CLASSES)
