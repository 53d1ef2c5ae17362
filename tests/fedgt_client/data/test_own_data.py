"""Nodes and links attached to imported data: the same as importing all together."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fedgt_client.data.csv_table import CsvFormat
from fedgt_client.data.own_data import OwnData
from fedgt_client.graph import Graph
from shared.errors import FedGTError
from tests.fedgt_client.graphs import two_groups
from tests.fedgt_client.tables import BankTables, bank_tables

OLD, ALL = 40, 60


@pytest.fixture
def tables() -> BankTables:
    return bank_tables(ALL)


@pytest.fixture
def data(tmp_path: Path, tables: BankTables) -> OwnData:
    """Import the first accounts."""
    tables.old(OLD).imported(tmp_path / "csv").save(tmp_path / "data")
    return OwnData.open(tmp_path / "data")


def assert_same_graph(found: Graph, expected: Graph) -> None:
    np.testing.assert_array_equal(found.indptr, expected.indptr)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.dense_features(), expected.dense_features())
    np.testing.assert_array_equal(found.labels, expected.labels)


NEW_NODES = pa.table(
    {"account": ["n1", "n2"], "balance": [1.0, 2.0], "age": [1, 2], "country": ["DE", "FR"]}
)


def changed(column: str, values: list[object]) -> pa.Table:
    place = NEW_NODES.column_names.index(column)
    return NEW_NODES.set_column(place, column, pa.array(values))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (NEW_NODES.drop_columns(["age"]), "nodes has no column 'age'"),
        (NEW_NODES.slice(0, 0), "nodes has columns but no rows"),
        (changed("account", ["n1", "a3"]), "row 2, column 'account': the id 'a3' is in the graph"),
        (changed("account", ["n1", "n1"]), "more than once: 'n1' in row 1 and row 2"),
        (changed("account", ["n1", None]), "row 2, column 'account': the id is empty"),
        (changed("country", ["DE", "XX"]), "row 2, column 'country': 'XX' is not a category"),
        (changed("balance", [1.0, float("nan")]), "row 2, column 'balance': nan is not a finite"),
        (changed("balance", ["1", "x"]), "row 2, column 'balance': 'x' is not a number"),
        (
            NEW_NODES.append_column("risk", pa.array(["good", "odd"])),
            "row 2, column 'risk': 'odd' is not a label",
        ),
    ],
)
def test_nodes_that_cannot_be_attached(data: OwnData, nodes: pa.Table, message: str) -> None:
    with pytest.raises(FedGTError, match=message) as error:
        data.attach(nodes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (pa.table({"from": ["a1"]}), "edges has no column 'to'"),
        (pa.table({"from": ["a1"], "to": ["n9"]}), "'n9' is not an id of the graph or of the new"),
        (pa.table({"from": ["a1"], "to": pa.array([None], pa.string())}), "the id is empty"),
    ],
)
def test_links_that_cannot_be_attached(data: OwnData, edges: pa.Table, message: str) -> None:
    with pytest.raises(FedGTError, match=message):
        data.attach(edges=edges)


def test_data_without_tables_takes_no_new_nodes() -> None:
    with pytest.raises(FedGTError, match="only be added to data of this version's"):
        OwnData.of(two_groups()).attach(NEW_NODES)


def test_an_import_of_an_earlier_version_takes_no_new_nodes(tmp_path: Path, data: OwnData) -> None:
    summary = tmp_path / "data" / "summary.json"
    document = json.loads(summary.read_text())
    del document["columns"]
    summary.write_text(json.dumps(document))
    opened = OwnData.open(tmp_path / "data")
    assert opened.graph.num_nodes == OLD
    with pytest.raises(FedGTError, match="import it again"):
        opened.attach(NEW_NODES)


def test_ids_of_another_graph(tmp_path: Path, tables: BankTables, data: OwnData) -> None:
    tables.imported(tmp_path / "other-csv").save(tmp_path / "other")
    (tmp_path / "other" / "ids.parquet").replace(tmp_path / "data" / "ids.parquet")
    with pytest.raises(FedGTError, match="has 60 ids, the graph 40 nodes"):
        OwnData.open(tmp_path / "data")


def test_attached_equals_imported_as_a_whole(
    tmp_path: Path, tables: BankTables, data: OwnData
) -> None:
    added = tables.added(OLD)
    whole = tables.imported(tmp_path / "whole")
    found = data.attach(added.nodes, added.edges)
    assert_same_graph(found.graph, whole.graph)
    assert found.ids.to_pylist() == whole.ids.to_pylist()
    assert found.new.tolist() == [False] * OLD + [True] * (ALL - OLD)
    # From files, too.
    from_files = data.attach(*added.write(tmp_path, "new-"))
    assert_same_graph(from_files.graph, whole.graph)


def test_texts_for_empty_cells_are_those_of_the_import(
    data: OwnData,
) -> None:
    marked = replace(data, written=CsvFormat(("NA", "?")))
    nodes = changed("balance", ["NA", "2.5"]).set_column(3, "country", pa.array(["?", "DE"]))
    with pytest.raises(FedGTError, match="'NA' is not a number"):
        data.attach(nodes)
    features = marked.attach(nodes).graph.dense_features()[OLD:]
    empty = data.attach(
        changed("balance", [None, 2.5]).set_column(3, "country", pa.array([None, "DE"]))
    )
    np.testing.assert_array_equal(features, empty.graph.dense_features()[OLD:])


def test_weighted_links(tmp_path: Path, tables: BankTables) -> None:
    weights = np.random.default_rng(1).random(tables.edges.num_rows) + 0.5
    weighted = BankTables(tables.nodes, tables.edges.append_column("amount", pa.array(weights)))
    old, added = weighted.old(OLD), weighted.added(OLD)
    old.imported(tmp_path / "csv", weight="amount").save(tmp_path / "weighted")
    data = OwnData.open(tmp_path / "weighted")
    found = data.attach(added.nodes, added.edges).graph
    whole = weighted.imported(tmp_path / "whole", weight="amount").graph
    assert_same_graph(found, whole)
    assert found.weights is not None
    assert whole.weights is not None
    np.testing.assert_allclose(found.weights, whole.weights, rtol=1e-6)
    with pytest.raises(FedGTError, match="edges has no column 'amount'"):
        data.attach(edges=pa.table({"from": ["a1"], "to": ["a2"]}))


def test_new_nodes_are_in_no_split_and_old_ones_stay_in_theirs(data: OwnData) -> None:
    found = data.attach(NEW_NODES).graph
    for name in ("train", "val", "test"):
        mask = getattr(found, name)
        np.testing.assert_array_equal(mask[:OLD], getattr(data.graph, name))
        assert not mask[OLD:].any()
    assert (found.labels[OLD:] == -1).all()


def test_a_node_without_links_is_marked(data: OwnData) -> None:
    found = data.attach(NEW_NODES, pa.table({"from": ["n1"], "to": ["a0"]}))
    assert found.linked()[OLD:].tolist() == [True, False]


def test_links_between_old_nodes(data: OwnData) -> None:
    first, second = (
        0,
        next(
            node for node in range(1, OLD) if node not in data.graph.indices[: data.graph.indptr[1]]
        ),
    )
    edges = pa.table({"from": ["a0", "a0"], "to": [f"a{second}", f"a{second}"]})
    found = data.attach(edges=edges).graph
    assert found.num_edges == data.graph.num_edges + 1
    assert second in found.indices[found.indptr[first] : found.indptr[first + 1]]
    assert first in found.indices[found.indptr[second] : found.indptr[second + 1]]


def test_a_position_by_id(data: OwnData) -> None:
    assert data.position("a7") == pc.index(data.ids, "a7").as_py() == 7
    with pytest.raises(FedGTError, match="there is no node with the id 'b7'"):
        data.position("b7")
