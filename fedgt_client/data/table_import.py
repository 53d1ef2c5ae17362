"""Import an institution's own tables (such as accounts and transfers) as a graph.

Node i is row i of the nodes file. Ids are compared as text without surrounding blanks: 7 in a
column of numbers equals "7" in a CSV file, and "007" is another id. Labels may be missing: such
nodes are UNLABELLED and in no split.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedgt_client.data.columns import (
    as_text,
    category_codes,
    first_true,
    positions,
    quote_cell,
    to_numpy,
)
from fedgt_client.data.feature_encoding import Features, Progress, encode_features
from fedgt_client.data.schema import SCHEMA_FILE, Schema
from fedgt_client.data.split import DEFAULT_RATIOS, split_graph
from fedgt_client.data.table_files import TableFile, open_table
from fedgt_client.graph import SPLITS, UNLABELLED, Graph, csr_from_arcs, undirected
from shared.errors import FedGTError
from shared.files import atomic_folder, write_json

IDS_FILE = "ids.parquet"
SUMMARY_FILE = "summary.json"
# Columns that tables of new nodes and links need, too.
ROLES = ("id", "label", "source", "target")

LinkEnds = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Tables:
    """Files with an institution's nodes and links, and the columns to use."""

    nodes: Path
    edges: Path
    id: str
    label: str
    source: str
    target: str
    split: str | None = None


@dataclass(frozen=True)
class Summary:
    """Counts of an import. They stay at the institution."""

    nodes: int
    links: int
    directed: bool
    duplicates: int  # links dropped because another row states them
    self_loops: int  # links dropped because they join a node to itself
    labelled: int
    unlabelled: int
    imputed: int  # empty numeric cells, set to the schema's mean
    imputed_columns: dict[str, int]
    missing_categories: int  # empty categorical cells, set to zeros
    missing_categories_columns: dict[str, int]
    features: int
    classes: int
    class_counts: dict[str, int]
    split: dict[str, int]
    split_without_label: int  # nodes with an entry in the split column but no label
    ignored_columns: list[str]
    schema_digest: str
    columns: dict[str, str]  # id, label, source, target: whoever adds nodes later uses the same


@dataclass(frozen=True)
class Imported:
    """Graph imported from tables, with the id of each node."""

    graph: Graph
    ids: pa.Array  # shape: (n,), text
    schema: Schema
    summary: Summary

    def save(self, folder: Path, *, force: bool = False) -> None:
        """Write graph, ids, schema and summary as a folder, atomically."""
        try:
            with atomic_folder(folder, force=force) as staging:
                self.graph.write_into(staging)
                pq.write_table(pa.table({"id": self.ids}), staging / IDS_FILE)
                self.schema.save(staging / SCHEMA_FILE)
                write_json(staging / SUMMARY_FILE, asdict(self.summary))
        except OSError as error:
            raise FedGTError(
                f"{folder} cannot be written: {error.strerror or type(error).__name__}"
            ) from None


def import_tables(
    tables: Tables,
    schema: Schema,
    *,
    seed: int = 0,
    directed: bool = False,
    progress: Progress = lambda step: None,
) -> Imported:
    """Read, check and encode an institution's tables.

    Without a split column the labelled nodes are split 20/40/40 at random by ``seed``.
    """
    _check_roles(tables, schema)
    nodes, edges = open_table(tables.nodes), open_table(tables.edges)
    chosen = [column.name for column in schema.columns]
    roles = [tables.id, tables.label] + ([tables.split] if tables.split else [])
    nodes.require_columns(roles + chosen)
    edges.require_columns([tables.source, tables.target])

    progress(f"reading {tables.nodes.name}")
    columns = nodes.read(roles + chosen)
    ids = read_ids(nodes, tables.id, columns.pop(tables.id))
    expected = "a label of the schema"
    labels = category_codes(nodes, tables.label, columns.pop(tables.label), schema.labels, expected)
    split = None if tables.split is None else _split(nodes, tables.split, columns.pop(tables.split))
    features = encode_features(nodes, columns, schema, progress)

    progress(f"reading {tables.edges.name}")
    ends = _link_ends(edges, tables, ids)
    progress("building the graph")
    indptr, indices = (csr_from_arcs if directed else undirected)(*ends, len(ids))
    if not len(indices):
        raise FedGTError(f"{tables.edges} has no link between two different nodes")
    labelled = labels != UNLABELLED
    masks = {
        name: np.zeros(len(ids), np.bool_) if split is None else (split == place) & labelled
        for place, name in enumerate(SPLITS)
    }
    graph = Graph(
        indptr=indptr,
        indices=indices,
        features=features.matrix,
        labels=labels,
        feature_names=schema.feature_names,
        class_names=schema.labels,
        directed=directed,
        **masks,
    )
    if split is None:
        graph = split_graph(graph, DEFAULT_RATIOS, seed)
    without_label = 0 if split is None else int(((split >= 0) & ~labelled).sum())
    ignored = [name for name in nodes.names if name and name not in roles + chosen]
    summary = _summary(graph, ends, features, without_label, ignored, schema.digest(), tables)
    return Imported(graph, ids, schema, summary)


def check_target(folder: Path, inputs: Sequence[Path], *, force: bool) -> None:
    """Raise an error for an unusable output folder before any work is done.

    Not even ``force`` replaces a folder that holds the inputs, the working folder or the home.
    """
    if folder.exists():
        if not force:
            raise FedGTError(f"{folder} exists already: choose another folder or add --force")
        home = [Path(os.environ["HOME"])] if "HOME" in os.environ else []
        for path in [*inputs, Path.cwd(), *home]:
            if path.resolve().is_relative_to(folder.resolve()):
                raise FedGTError(f"{folder} is not replaced, as it holds {path}: choose another")
    parent = folder.absolute().parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise FedGTError(f"{folder} cannot be written: {parent} is not a folder")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise FedGTError(f"{folder} cannot be written: {parent} is not writable")


def _check_roles(tables: Tables, schema: Schema) -> None:
    """Raise an error for a column with two uses: a label among the features would be leaked."""
    uses = {"id": tables.id, "label": tables.label, "split": tables.split}
    seen = {column.name: "a feature of the schema" for column in schema.columns}
    for use, name in uses.items():
        if name is None:
            continue
        if name in seen:
            raise FedGTError(f"column {name!r} cannot be the {use} column and {seen[name]}")
        seen[name] = f"the {use} column"
    if tables.source == tables.target:
        raise FedGTError(f"column {tables.source!r} cannot be the source and the target column")


def read_ids(table: TableFile, name: str, column: pa.ChunkedArray) -> pa.Array:
    """Return the ids as text, checked to be present and distinct; shape (n,)."""
    ids = as_text(table, name, column).combine_chunks()
    if ids.null_count:
        raise table.cell_error(_first_null(ids), name, "the id is empty")
    distinct = pc.unique(ids)
    if len(distinct) < len(ids):
        _, firsts = np.unique(positions(ids, distinct), return_index=True)
        repeated = np.ones(len(ids), np.bool_)
        repeated[firsts] = False
        index = int(np.flatnonzero(repeated)[0])
        earlier = pc.index(ids, ids[index]).as_py()
        cell = quote_cell(ids[index].as_py())
        message = f"the id {cell} occurs already in {table.row_name(earlier)}"
        raise table.cell_error(index, name, message)
    return ids


def _split(table: TableFile, name: str, column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the index of each node's split in SPLITS, -1 where none is named; shape (n,)."""
    text = pc.utf8_lower(as_text(table, name, column))
    return category_codes(table, name, text, SPLITS, "train, val, test or empty")


def _link_ends(table: TableFile, tables: Tables, ids: pa.Array) -> LinkEnds:
    """Return source and target of every link as node numbers, each of shape (rows,)."""
    columns = table.read([tables.source, tables.target])
    source, target = (
        node_numbers(table, name, columns.pop(name), ids, str(tables.nodes))
        for name in (tables.source, tables.target)
    )
    return source, target


def node_numbers(
    table: TableFile, name: str, column: pa.ChunkedArray, ids: pa.Array, known_from: str
) -> NDArray[np.int64]:
    """Return the position in ``ids`` of every cell; the error for another says ``known_from``."""
    text = as_text(table, name, column)
    if text.null_count:
        raise table.cell_error(_first_null(text), name, "the id is empty")
    found = positions(text, ids)
    if (unknown := first_true(found < 0)) is not None:
        cell = quote_cell(text[unknown].as_py())
        raise table.cell_error(unknown, name, f"{cell} is not an id of {known_from}")
    return found


def _first_null(column: pa.ChunkedArray) -> int:
    return int(to_numpy(pc.is_null(column)).argmax())


def _summary(
    graph: Graph,
    ends: LinkEnds,
    features: Features,
    without_label: int,
    ignored: list[str],
    schema_digest: str,
    tables: Tables,
) -> Summary:
    self_loops = int((ends[0] == ends[1]).sum())
    labels = graph.labels[graph.labels != UNLABELLED]
    counts = np.bincount(labels, minlength=graph.num_classes).tolist()
    return Summary(
        nodes=graph.num_nodes,
        links=graph.num_edges,
        directed=graph.directed,
        duplicates=len(ends[0]) - self_loops - graph.num_edges,
        self_loops=self_loops,
        labelled=len(labels),
        unlabelled=graph.num_nodes - len(labels),
        imputed=sum(features.imputed.values()),
        imputed_columns=dict(features.imputed),
        missing_categories=sum(features.missing.values()),
        missing_categories_columns=dict(features.missing),
        features=graph.num_features,
        classes=graph.num_classes,
        class_counts=dict(zip(graph.class_names, counts, strict=True)),
        split={name: int(getattr(graph, name).sum()) for name in SPLITS},
        split_without_label=without_label,
        ignored_columns=ignored,
        schema_digest=schema_digest,
        columns={role: getattr(tables, role) for role in ROLES},
    )
