"""How long an institution waits for ``fedgt data import``, and how much memory it takes.

Run by hand: ``python -m experiments.benchmarks.import_tables [--nodes N] [--edges M]``. It writes
generated tables of 32 feature columns to a temporary folder, once as CSV and once as Parquet,
and imports each in a process of its own.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from fedgt_client.data.schema import CategoricalColumn, NumericColumn, Schema

_NUMERIC = 24
_CATEGORIES = (2, 3, 5, 8, 10, 12, 20, 40)  # sizes of the categorical columns
_CLASSES = ("low", "medium", "high")


def make_nodes(count: int, rng: np.random.Generator) -> pa.Table:
    """Generate nodes with text ids, some empty cells and mostly missing labels."""
    columns = {"account": pa.array([f"AC{number:09d}" for number in range(count)])}
    for place in range(_NUMERIC):
        values = np.round(rng.normal(100, 25, count), 4)
        columns[f"number_{place}"] = pa.array(values, mask=rng.random(count) < 0.01)
    for place, size in enumerate(_CATEGORIES):
        names = pa.array([f"c{number}" for number in range(size)])
        columns[f"category_{place}"] = names.take(pa.array(rng.integers(0, size, count)))
    labels = pa.array(rng.integers(0, len(_CLASSES), count), mask=rng.random(count) < 0.8)
    columns["risk"] = pa.array(_CLASSES).take(labels)
    return pa.table(columns)


def make_edges(count: int, ids: pa.ChunkedArray, rng: np.random.Generator) -> pa.Table:
    """Generate uniform links between the nodes, with an unused third column."""
    ends = rng.integers(0, len(ids), (2, count))
    known = ids.combine_chunks()
    return pa.table(
        {
            "from": known.take(pa.array(ends[0])),
            "to": known.take(pa.array(ends[1])),
            "amount": rng.integers(1, 10_000, count),
        }
    )


def make_schema() -> Schema:
    """Return the schema of ``make_nodes``."""
    numeric = (NumericColumn(name=f"number_{n}", mean=100, std=25) for n in range(_NUMERIC))
    categorical = (
        CategoricalColumn(name=f"category_{place}", categories=tuple(f"c{n}" for n in range(size)))
        for place, size in enumerate(_CATEGORIES)
    )
    return Schema(columns=(*numeric, *categorical), labels=_CLASSES)


def write_tables(folder: Path, nodes: int, edges: int) -> None:
    """Write the same tables as CSV and as Parquet, and their schema."""
    rng = np.random.default_rng(0)
    accounts = make_nodes(nodes, rng)
    transfers = make_edges(edges, accounts.column("account"), rng)
    for name, table in (("accounts", accounts), ("transfers", transfers)):
        arrow_csv.write_csv(table, folder / f"{name}.csv")
        pq.write_table(table, folder / f"{name}.parquet")
    make_schema().save(folder / "schema.json")


def measure(command: list[str]) -> tuple[float, float]:
    """Run one process; return its seconds and peak resident GiB."""
    start = time.perf_counter()
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    process = os.posix_spawn(command[0], command, os.environ, file_actions=silent)
    _, status, usage = os.wait4(process, 0)
    if code := os.waitstatus_to_exitcode(status):
        sys.exit(f"the import ended with exit code {code}")
    return time.perf_counter() - start, usage.ru_maxrss / 2**20


def main() -> None:
    """Generate, import, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    sizes = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # In a process of its own: a child's peak is never below what its parent held at the fork.
        child = os.fork()
        if child == 0:
            write_tables(folder, sizes.nodes, sizes.edges)
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            sys.exit("the tables could not be generated")
        for kind in ("csv", "parquet"):
            options = {
                "--nodes": folder / f"accounts.{kind}",
                "--edges": folder / f"transfers.{kind}",
                "--id": "account",
                "--label": "risk",
                "--source": "from",
                "--target": "to",
                "--schema": folder / "schema.json",
                "--out": folder / kind,
            }
            flags = [str(part) for option in options.items() for part in option]
            program = [sys.executable, "-c", "from deploy.cli import main; main()"]
            seconds, memory = measure([*program, "data", "import", *flags, "--json"])
            print(f"{kind}: {seconds:.1f} s, peak {memory:.2f} GiB", flush=True)


if __name__ == "__main__":
    main()
