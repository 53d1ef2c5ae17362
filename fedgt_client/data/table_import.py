"""Import an institution's own tables (such as accounts and transfers) as a graph.

Node i is row i of the nodes file, not counting dropped duplicates. Labels may be missing: such
nodes are UNLABELLED and in no split.
"""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fedgt_client.csr import weighted_csr, weighted_undirected
from fedgt_client.data.columns import as_text, category_codes
from fedgt_client.data.csv_table import PLAIN, CsvFormat
from fedgt_client.data.feature_encoding import CellCounts, Features, Progress, encode_features
from fedgt_client.data.link_table import LinkColumns, Links, read_links
from fedgt_client.data.node_ids import duplicates_error, first_rows, parse_ids
from fedgt_client.data.provenance import SUMMARY_FILE
from fedgt_client.data.schema import SCHEMA_FILE, Schema
from fedgt_client.data.split import DEFAULT_RATIOS, split_graph
from fedgt_client.data.table import SelectedRows, TableFile
from fedgt_client.data.table_files import open_table
from fedgt_client.graph import SPLITS, UNLABELLED, Graph
from shared.errors import FedGTError
from shared.files import atomic_folder, check_writable, write_json

IDS_FILE = "ids.parquet"


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
    weight: str | None = None

    def columns(self) -> dict[str, str]:
        """Return the names of the columns by their roles, without those that are not used."""
        roles = {role: value for role, value in asdict(self).items() if isinstance(value, str)}
        return {role: roles[role] for role in sorted(roles)}

    def link_columns(self) -> LinkColumns:
        """Return the columns to read of the edges file."""
        return LinkColumns(self.source, self.target, self.weight)


@dataclass(frozen=True)
class Summary:
    """Counts of an import. They stay at the institution."""

    nodes: int
    links: int
    directed: bool
    weighted: bool
    duplicates: int  # links dropped, or added to the weight of another, as parallel to it
    self_loops: int  # links dropped because they join a node to itself
    labelled: int
    unlabelled: int
    imputed: int  # empty numbers and indicators, set to the schema's mean
    imputed_columns: dict[str, int]
    clipped: int  # numbers beyond the schema's range, set to its end
    clipped_columns: dict[str, int]
    missing_categories: int  # empty categorical cells, set to zeros
    missing_categories_columns: dict[str, int]
    features: int
    classes: int
    class_counts: dict[str, int]
    split: dict[str, int]
    ignored_columns: list[str]
    schema_digest: str
    columns: dict[str, str]  # names by role (id, label, …), for nodes and links added later
    empty: tuple[str, ...] = ()  # texts that stood for empty cells, for nodes added later
    decimal_comma: bool = False  # how numbers were written in CSV files, for the same
    duplicate_ids: int = 0  # rows dropped because an earlier one has the same id
    drop_unknown: bool = False  # whether links to unknown ids are left out, for links added later
    unknown_links: int = 0  # links left out because an end is no node's id
    split_without_label: int = 0  # nodes with an entry in the split column but no label
    institution: str = ""  # whose data it is; empty: not said
    graph_digest: str = ""  # of the graph that was written


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
    keep_first: bool = False,
    drop_unknown: bool = False,
    written: CsvFormat = PLAIN,
    institution: str = "",
    progress: Progress = lambda step: None,
) -> Imported:
    """Read, check and encode an institution's tables.

    Without a split column the labelled nodes are split 20/40/40 at random by ``seed``. With
    ``keep_first`` the first row of a repeated id is used; otherwise such an id is an error. With
    ``drop_unknown`` links to ids that are no node's are left out; otherwise they are an error.
    ``written`` says how cells of CSV files are written.
    """
    _check_roles(tables, schema)
    nodes, edges = (open_table(path, written) for path in (tables.nodes, tables.edges))
    chosen = [column.name for column in schema.columns]
    roles = [tables.label] + ([tables.split] if tables.split else [])
    nodes.require_columns([tables.id, *roles, *chosen])
    edges.require_columns(tables.link_columns().names())

    progress(f"reading {tables.nodes.name}")
    columns = nodes.read([tables.id, *roles, *chosen])
    ids = parse_ids(nodes, tables.id, columns.pop(tables.id))
    repeated = len(ids) - len(first := first_rows(ids))
    if repeated and not keep_first:
        remedy = "--on-duplicate first keeps the first row of each"
        raise duplicates_error(nodes, tables.id, ids, first, remedy)
    if repeated:
        nodes = selected = SelectedRows.of(nodes, first)
        ids, columns = ids.take(pa.array(first)), selected.select(columns)
    expected = "a label of the schema"
    labels = category_codes(nodes, tables.label, columns.pop(tables.label), schema.labels, expected)
    split = None if tables.split is None else _split(nodes, tables.split, columns.pop(tables.split))
    features = encode_features(nodes, columns, schema, progress)

    progress(f"reading {tables.edges.name}")
    known = f"{nodes.path} (--on-unknown drop leaves such links out)"
    links = read_links(edges, tables.link_columns(), ids, known, drop_unknown=drop_unknown)
    progress("building the graph")
    graph = _graph(schema, labels, split, features, links, directed=directed)
    if not len(graph.indices):
        raise FedGTError(f"{tables.edges} has no link between two different nodes")
    if split is None:
        graph = split_graph(graph, DEFAULT_RATIOS, seed)
    without_label = 0 if split is None else int(((split >= 0) & (labels == UNLABELLED)).sum())
    ignored = [name for name in nodes.names if name not in ("", tables.id, *roles, *chosen)]
    summary = _summary(graph, links, features.counts, schema.digest(), ignored, tables)
    summary = replace(
        summary,
        empty=written.empty,
        decimal_comma=written.decimal_comma,
        duplicate_ids=repeated,
        drop_unknown=drop_unknown,
        unknown_links=links.unknown,
        split_without_label=without_label,
        institution=institution,
        graph_digest=graph.digest(),
    )
    return Imported(graph, ids, schema, summary)


def _graph(
    schema: Schema,
    labels: NDArray[np.int64],
    split: NDArray[np.int64] | None,
    features: Features,
    links: Links,
    *,
    directed: bool,
) -> Graph:
    """Build the graph; without ``split`` no node is in one."""
    build = weighted_csr if directed else weighted_undirected
    indptr, indices, weights = build(links.source, links.target, links.weights, len(labels))
    train, val, test = (
        np.zeros(len(labels), np.bool_)
        if split is None
        else (split == place) & (labels != UNLABELLED)
        for place in range(len(SPLITS))
    )
    return Graph(
        indptr=indptr,
        indices=indices,
        features=features.matrix,
        labels=labels,
        train=train,
        val=val,
        test=test,
        feature_names=schema.feature_names,
        class_names=schema.labels,
        directed=directed,
        weights=weights,
    )


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
    check_writable(folder)


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
    ends = {tables.source: "source"}
    for use, name in (("target", tables.target), ("weight", tables.weight)):
        if name in ends:
            raise FedGTError(f"column {name!r} cannot be the {ends[name]} and the {use} column")
        ends[str(name)] = use


def _split(table: TableFile, name: str, column: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return the index of each node's split in SPLITS, -1 where none is named; shape (n,)."""
    text = pc.utf8_lower(as_text(table, name, column))
    return category_codes(table, name, text, SPLITS, "train, val, test or empty")


def _summary(
    graph: Graph,
    links: Links,
    cells: CellCounts,
    schema_digest: str,
    ignored: list[str],
    tables: Tables,
) -> Summary:
    self_loops = int((links.source == links.target).sum())
    labels = graph.labels[graph.labels != UNLABELLED]
    counts = np.bincount(labels, minlength=graph.num_classes).tolist()
    return Summary(
        nodes=graph.num_nodes,
        links=graph.num_edges,
        directed=graph.directed,
        weighted=graph.weights is not None,
        duplicates=len(links.source) - self_loops - graph.num_edges,
        self_loops=self_loops,
        labelled=len(labels),
        unlabelled=graph.num_nodes - len(labels),
        imputed=cells.imputed.total(),
        imputed_columns=dict(cells.imputed),
        clipped=cells.clipped.total(),
        clipped_columns=dict(cells.clipped),
        missing_categories=cells.missing.total(),
        missing_categories_columns=dict(cells.missing),
        features=graph.num_features,
        classes=graph.num_classes,
        class_counts=dict(zip(graph.class_names, counts, strict=True)),
        split={name: int(getattr(graph, name).sum()) for name in SPLITS},
        ignored_columns=ignored,
        schema_digest=schema_digest,
        columns=tables.columns(),
    )
