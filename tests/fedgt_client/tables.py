"""Tables of accounts and transfers that a small model can learn from."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from fedgt_client.data.schema import CategoricalColumn, NumericColumn, Schema
from fedgt_client.data.table_import import Imported, Tables, import_tables

SCHEMA = Schema(
    columns=(
        NumericColumn(name="balance", mean=1.0, std=2.0),
        NumericColumn(name="age", mean=5.0, std=3.0),
        CategoricalColumn(name="country", categories=("DE", "FR")),
    ),
    labels=("good", "bad"),
)
ROLES = {"id": "account", "label": "risk", "source": "from", "target": "to"}


@dataclass(frozen=True)
class BankTables:
    """All accounts and transfers of a bank."""

    nodes: pa.Table
    edges: pa.Table

    def old(self, count: int) -> "BankTables":
        """Return the first ``count`` accounts, with the transfers among them."""
        inside = self._ends() < count
        return BankTables(self.nodes.slice(0, count), self.edges.filter(inside.all(axis=1)))

    def added(self, count: int) -> "BankTables":
        """Return the accounts after the first ``count``, with all transfers that touch them."""
        outside = self._ends() >= count
        return BankTables(self.nodes.slice(count), self.edges.filter(outside.any(axis=1)))

    def _ends(self) -> np.ndarray:
        """Return the numbers of both accounts of each transfer, shape (m, 2)."""
        columns = [self.edges.column(name).to_pylist() for name in ("from", "to")]
        return np.array([[int(cell[1:]) for cell in column] for column in columns]).T

    def write(self, folder: Path, prefix: str = "") -> tuple[Path, Path]:
        """Write both as CSV files."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = (folder / f"{prefix}accounts.csv", folder / f"{prefix}transfers.csv")
        for table, path in zip((self.nodes, self.edges), paths, strict=True):
            arrow_csv.write_csv(table, path)
        return paths

    def imported(self, folder: Path, *, weight: str | None = None) -> Imported:
        """Import the tables."""
        nodes, edges = self.write(folder)
        return import_tables(Tables(nodes, edges, **ROLES, weight=weight), SCHEMA)


def bank_tables(
    accounts: int = 60, *, positives: float = 0.5, seed: int = 0, spread: float = 1.5
) -> BankTables:
    """Draw accounts 'a0', 'a1', … of two classes that differ in balance and whom they pay.

    Balances of the classes are 4 apart; their deviation is ``spread``.
    """
    rng = np.random.default_rng(seed)
    bad = rng.random(accounts) < positives
    nodes = pa.table(
        {
            "account": [f"a{i}" for i in range(accounts)],
            "balance": np.where(bad, 3.0, -1.0) + rng.normal(0, spread, accounts),
            "age": rng.normal(5.0, 3.0, accounts),
            "country": rng.choice(["DE", "FR"], accounts),
            "risk": np.where(bad, "bad", "good"),
        }
    )
    sources = rng.integers(0, accounts, 4 * accounts)
    targets = rng.integers(0, accounts, 4 * accounts)
    kept = (bad[sources] == bad[targets]) | (rng.random(4 * accounts) < 0.3)
    kept &= sources != targets
    edges = pa.table(
        {
            "from": [f"a{i}" for i in sources[kept]],
            "to": [f"a{i}" for i in targets[kept]],
        }
    )
    return BankTables(nodes, edges)
