"""An institution's imported data, with ids, and tables of nodes and links added to it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import sparse

from fedgt_client.csr import weighted_csr, weighted_undirected
from fedgt_client.data.columns import category_codes, first_true, positions, quote_cell
from fedgt_client.data.csv_table import PLAIN, CsvFormat
from fedgt_client.data.feature_encoding import encode_features
from fedgt_client.data.link_table import read_links
from fedgt_client.data.node_ids import duplicates_error, first_rows, parse_ids
from fedgt_client.data.provenance import SUMMARY_FILE
from fedgt_client.data.schema import SCHEMA_FILE, Schema
from fedgt_client.data.table import TableFile
from fedgt_client.data.table_files import emptied, open_table
from fedgt_client.data.table_import import IDS_FILE, Tables
from fedgt_client.graph import UNLABELLED, Graph
from shared.errors import FedGTError

Table: TypeAlias = Path | str | pa.Table


@dataclass(frozen=True)
class OwnData:
    """A graph and what it was imported with."""

    graph: Graph
    ids: pa.Array  # shape: (n,), text
    new: NDArray[np.bool_]  # shape: (n,), nodes that were attached
    schema: Schema | None = None  # None: not imported from tables
    columns: Mapping[str, str] | None = None  # names by role, as of ``Tables.columns``
    written: CsvFormat = PLAIN  # how cells of the imported files were written
    drop_unknown: bool = False  # whether the import left out links to unknown ids

    @classmethod
    def open(cls, folder: Path) -> "OwnData":
        """Open a folder that 'fedgt data import' wrote; of a graph without ids rows are numbered.

        Raises
        ------
        FedGTError
            If the files are missing, damaged or do not belong together.
        """
        graph = Graph.open(folder)
        if not (folder / IDS_FILE).exists():
            return cls.of(graph)
        ids = _read_ids_file(folder / IDS_FILE)
        if len(ids) != graph.num_nodes:
            raise FedGTError(
                f"{folder / IDS_FILE} has {len(ids)} ids, the graph {graph.num_nodes} nodes: "
                "import it again"
            )
        new = np.zeros(graph.num_nodes, np.bool_)
        schema = Schema.load(folder / SCHEMA_FILE)
        return cls(graph, ids, new, schema, *_import_options(folder))

    @classmethod
    def of(cls, graph: Graph) -> "OwnData":
        """Return a graph whose nodes are called by their numbers."""
        n = graph.num_nodes
        return cls(graph, pa.array(np.arange(n)).cast(pa.string()), np.zeros(n, np.bool_))

    def attach(self, nodes: Table | None = None, edges: Table | None = None) -> "OwnData":
        """Return the data with nodes and links added, as if all had been imported together.

        Tables are files (CSV or Parquet) or pyarrow tables, with the columns of the import. The
        column of labels may be absent. New nodes are in no split.
        """
        if self.schema is None or self.columns is None:
            raise FedGTError(
                "nodes and links can only be added to data of this version's 'fedgt data import': "
                "import it again"
            )
        added = (
            None if nodes is None else self._read_nodes(self._opened(nodes, "nodes"), self.schema)
        )
        grown = self if added is None else self._with_nodes(*added)
        if edges is None:
            return grown
        return grown._with_links(self._opened(edges, "edges"))

    def _opened(self, table: Table, called: str) -> TableFile:
        if isinstance(table, pa.Table):
            names = tuple(name.strip() for name in table.column_names)
            return MemoryTable(Path(called), names, table, self.written.empty)
        return open_table(Path(table), self.written)

    def linked(self) -> NDArray[np.bool_]:
        """Return which nodes have a link, in either direction; shape (n,)."""
        found = np.diff(self.graph.indptr) > 0
        found[self.graph.indices] = True
        return found

    def position(self, node_id: str) -> int:
        """Return the number of the node with this id."""
        found = pc.index(self.ids, node_id.strip()).as_py()
        if found < 0:
            raise FedGTError(f"there is no node with the id {quote_cell(node_id)}")
        return int(found)

    def _read_nodes(
        self, table: TableFile, schema: Schema
    ) -> tuple[pa.Array, NDArray[np.int64], NDArray[np.float32] | sparse.csr_array]:
        """Return ids, labels and features of new nodes."""
        assert self.columns is not None
        id_column, label_column = self.columns["id"], self.columns["label"]
        chosen = [column.name for column in schema.columns]
        table.require_columns([id_column, *chosen])
        labelled = label_column in table.names
        cells = table.read([id_column, *chosen, *([label_column] if labelled else [])])
        ids = parse_ids(table, id_column, cells.pop(id_column))
        if len(first := first_rows(ids)) < len(ids):
            remedy = "keep one row of each"
            raise duplicates_error(table, id_column, ids, first, remedy)
        if (known := first_true(positions(ids, self.ids) >= 0)) is not None:
            cell = quote_cell(ids[known].as_py())
            raise table.cell_error(known, id_column, f"the id {cell} is in the graph already")
        labels = (
            category_codes(
                table, label_column, cells.pop(label_column), schema.labels, "a label of the schema"
            )
            if labelled
            else np.full(len(ids), UNLABELLED, np.int64)
        )
        return ids, labels, encode_features(table, cells, schema, lambda _: None).matrix

    def _with_nodes(
        self,
        ids: pa.Array,
        labels: NDArray[np.int64],
        features: NDArray[np.float32] | sparse.csr_array,
    ) -> "OwnData":
        graph, added = self.graph, len(ids)
        none = np.zeros(added, np.bool_)
        last = graph.indptr[-1:]
        grown = replace(
            graph,
            indptr=np.concatenate([graph.indptr, np.repeat(last, added)]),
            features=_stacked(graph.features, features),
            labels=np.concatenate([graph.labels, labels]),
            train=np.concatenate([graph.train, none]),
            val=np.concatenate([graph.val, none]),
            test=np.concatenate([graph.test, none]),
        )
        all_ids = pa.concat_arrays([self.ids.cast(pa.string()), ids.cast(pa.string())])
        return replace(self, graph=grown, ids=all_ids, new=np.concatenate([self.new, ~none]))

    def _with_links(self, table: TableFile) -> "OwnData":
        assert self.columns is not None
        graph, tables = self.graph, Tables(Path(), table.path, **self.columns)
        columns, known = tables.link_columns(), "the graph or of the new nodes"
        table.require_columns(columns.names())
        added = read_links(table, columns, self.ids, known, drop_unknown=self.drop_unknown)
        sources, targets = graph.arcs()
        # An undirected link is stored in both directions, and would be counted twice.
        kept = np.ones(len(sources), np.bool_) if graph.directed else sources < targets
        weights = None
        if graph.weights is not None and added.weights is not None:
            weights = np.concatenate([graph.weights[kept].astype(np.float64), added.weights])
        build = weighted_csr if graph.directed else weighted_undirected
        indptr, indices, weights = build(
            np.concatenate([sources[kept], added.source]),
            np.concatenate([targets[kept], added.target]),
            weights,
            graph.num_nodes,
        )
        grown = replace(graph, indptr=indptr, indices=indices, weights=weights)
        return replace(self, graph=grown)


def open_data(folder: Path | str) -> OwnData:
    """Open a graph with its ids, as 'fedgt data import' wrote it."""
    return OwnData.open(Path(folder))


@dataclass(frozen=True)
class MemoryTable(TableFile):
    """A pyarrow table in memory; ``path`` is what error messages call it."""

    table: pa.Table | None = None
    empty: tuple[str, ...] = ()  # texts that stand for an empty cell

    def read(self, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        """Return the named columns."""
        assert self.table is not None
        if not self.table.num_rows:
            raise FedGTError(f"{self.path} has columns but no rows")
        columns = {name: self.table.column(self.names.index(name)) for name in names}
        return emptied(columns, self.empty)

    def row_names(self, indexes: Sequence[int]) -> list[str]:
        """Return the rows, counted from 1."""
        return [f"row {index + 1}" for index in indexes]


def _read_ids_file(path: Path) -> pa.Array:
    try:
        return pq.read_table(path, columns=["id"]).column("id").combine_chunks()
    except (pa.ArrowException, OSError, KeyError) as error:
        raise FedGTError(f"{path} is damaged ({type(error).__name__}): import it again") from None


def _import_options(folder: Path) -> tuple[dict[str, str] | None, CsvFormat, bool]:
    """Return the columns of the import, how cells were written, if unknown ids were left out.

    There are no columns where an earlier version wrote the folder.
    """
    try:
        summary = json.loads((folder / SUMMARY_FILE).read_text())
        tables = Tables(Path(), Path(), **summary["columns"])
        empty = tuple(str(text) for text in summary.get("empty", ()))
        written = CsvFormat(empty, bool(summary.get("decimal_comma", False)))
        return tables.columns(), written, bool(summary.get("drop_unknown", False))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None, PLAIN, False


def _stacked(
    first: NDArray[np.float32] | sparse.csr_array, second: NDArray[np.float32] | sparse.csr_array
) -> NDArray[np.float32] | sparse.csr_array:
    """Return the rows of both, shape (n + k, p); an import chooses the same form for both."""
    if isinstance(first, sparse.csr_array):
        stacked = sparse.vstack([first, sparse.csr_array(second)], format="csr")
        return sparse.csr_array(stacked, dtype=np.float32)
    rows = second.toarray() if isinstance(second, sparse.csr_array) else second
    return np.concatenate([first, rows])
