from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

from fedgt_client.data.catalog import load_dataset
from fedgt_client.data.schema import CategoricalColumn, NumericColumn, Schema
from fedgt_client.data.table_import import Imported, Tables, check_target, import_tables
from fedgt_client.graph import UNLABELLED, Graph
from shared.errors import FedGTError

DATASETS = Path(__file__).parents[4] / "shared" / "datasets"

SCHEMA = Schema(
    columns=(
        NumericColumn(name="balance", mean=100, std=50),
        CategoricalColumn(name="country", categories=("DE", "FR")),
    ),
    labels=("low", "high"),
)
NODES = """account,balance,country,risk,part
007,100,DE,low,train
7,150,FR,high,val
x 1,,DE,,test
b,50,,low,Test
"c,d",1e2,FR,high,
"""
EDGES = """from,to,amount
007,7,1
7,007,2
007,7,3
x 1,x 1,4
b,"c,d",5
"""
COLUMNS: dict[str, Any] = {"id": "account", "label": "risk", "source": "from", "target": "to"}


def files(folder: Path, nodes: str | pa.Table = NODES, edges: str | pa.Table = EDGES) -> Tables:
    paths = []
    for name, content in (("accounts", nodes), ("transfers", edges)):
        if isinstance(content, str):
            path = folder / f"{name}.csv"
            path.write_bytes(content.encode())
        else:
            path = folder / f"{name}.parquet"
            pq.write_table(content, path)
        paths.append(path)
    return Tables(paths[0], paths[1], **COLUMNS)


def imported(folder: Path, nodes: Any = NODES, edges: Any = EDGES, **options: Any) -> Imported:
    return import_tables(files(folder, nodes, edges), SCHEMA, **options)


@pytest.mark.parametrize("name", [".", "..", "inputs"])
def test_protected_folders_are_never_replaced(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inputs").mkdir()
    (tmp_path / "work").mkdir()
    nodes = tmp_path / "inputs" / "accounts.csv"
    nodes.touch()
    monkeypatch.chdir(tmp_path / "work")
    target = nodes.parent if name == "inputs" else Path(name)
    with pytest.raises(FedGTError, match="is not replaced"):
        check_target(target, [nodes], force=True)


def test_csv_round_trips(tmp_path: Path) -> None:
    result = imported(tmp_path)
    result.save(tmp_path / "bank")
    graph = Graph.open(tmp_path / "bank")
    assert pq.read_table(tmp_path / "bank" / "ids.parquet").column("id").to_pylist() == [
        *("007", "7", "x 1", "b", "c,d")
    ]
    assert Schema.load(tmp_path / "bank" / "schema.json") == SCHEMA
    assert graph.feature_names == ("balance", "country=DE", "country=FR")
    assert graph.class_names == ("low", "high")
    assert graph.labels.tolist() == [0, 1, UNLABELLED, 0, 1]
    assert graph.dense_features().tolist() == [
        [0, 1, 0],
        [1, 0, 1],
        [0, 1, 0],
        [-1, 0, 0],
        [0, 0, 1],
    ]
    sources, targets = graph.arcs()
    assert list(zip(sources.tolist(), targets.tolist(), strict=True)) == [
        *((0, 1), (1, 0), (3, 4), (4, 3))
    ]
    assert graph.digest() == result.graph.digest()


def test_the_summary_counts_everything(tmp_path: Path) -> None:
    summary = imported(tmp_path).summary
    assert (summary.nodes, summary.links) == (5, 2)
    assert (summary.duplicates, summary.self_loops) == (2, 1)
    assert (summary.labelled, summary.unlabelled) == (4, 1)
    assert summary.imputed_columns == {"balance": 1}
    assert summary.missing_categories_columns == {"country": 1}
    assert (summary.imputed, summary.missing_categories) == (1, 1)
    assert summary.class_counts == {"low": 2, "high": 2}
    assert sum(summary.split.values()) == 4
    assert summary.ignored_columns == ["part"]


def test_directed_links_keep_their_direction(tmp_path: Path) -> None:
    result = imported(tmp_path, directed=True)
    sources, targets = result.graph.arcs()
    assert list(zip(sources.tolist(), targets.tolist(), strict=True)) == [(0, 1), (1, 0), (3, 4)]
    assert (result.summary.links, result.summary.duplicates) == (3, 1)


def test_a_split_column_marks_labelled_nodes_only(tmp_path: Path) -> None:
    tables = files(tmp_path)
    split = Tables(tables.nodes, tables.edges, **COLUMNS, split="part")
    result = import_tables(split, SCHEMA)
    assert np.flatnonzero(result.graph.train).tolist() == [0]
    assert np.flatnonzero(result.graph.val).tolist() == [1]
    assert np.flatnonzero(result.graph.test).tolist() == [3]
    assert result.summary.split_without_label == 1


def test_the_seed_alone_decides_the_split(tmp_path: Path) -> None:
    nodes = "account,balance,country,risk\n" + "".join(
        f"{i},1,DE,{'low' if i % 2 else ''}\n" for i in range(100)
    )
    edges = "from,to\n1,2\n"
    masks = [imported(tmp_path, nodes, edges, seed=seed).graph for seed in (3, 3, 4)]
    assert masks[0].digest() == masks[1].digest() != masks[2].digest()
    for graph in masks:
        parts = np.stack([graph.train, graph.val, graph.test])
        assert parts.sum(axis=1).tolist() == [10, 20, 20]
        assert (parts.sum(axis=0) == (graph.labels != UNLABELLED)).all()


def test_bom_line_ends_blank_lines_and_blanks_do_not_matter(tmp_path: Path) -> None:
    plain = imported(tmp_path)
    dressed = NODES.replace(",", " , ").replace('"c , d"', '"c,d"').replace("\n", "\r\n\r\n")
    assert imported(tmp_path, "\ufeff" + dressed).graph.digest() == plain.graph.digest()


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_are_found_by_the_header(tmp_path: Path, delimiter: str) -> None:
    plain = imported(tmp_path)
    cells = NODES.replace(",", delimiter).replace(f"c{delimiter}d", "c,d")
    found = imported(tmp_path, cells)
    assert found.graph.digest() == plain.graph.digest()
    assert found.ids.equals(plain.ids)
    with pytest.raises(FedGTError, match=r"line 7 \(data row 6\): 2 cells, the header has 5"):
        imported(tmp_path, f"{cells}x{delimiter}y\n")


def test_a_missing_column_of_a_wide_table_names_those_alike(tmp_path: Path) -> None:
    names = ",".join(f"column_{i}" for i in range(400))
    with pytest.raises(FedGTError, match="no column 'balance'; there are: 'balanz', 'acc") as error:
        imported(tmp_path, f"account,{names},balanz,country,risk\n")
    assert str(error.value).endswith("and 384 more")


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint32(), pa.float64(), pa.large_string()])
def test_ids_are_the_same_from_every_type(tmp_path: Path, kind: pa.DataType) -> None:
    nodes = "account,balance,country,risk\n7,1,DE,low\n8,1,DE,\n12345678901,1,DE,\n"
    edges = pa.table({"from": ["7", "8"], "to": ["8", "7"]})
    edges = edges.set_column(0, "from", edges.column(0).cast(pa.int64()).cast(kind))
    edges = edges.set_column(1, "to", edges.column(1).dictionary_encode())
    assert imported(tmp_path, nodes, edges).summary.links == 1


def test_parquet_gives_what_csv_gives(tmp_path: Path) -> None:
    nodes = pa.table(
        {
            "account": ["007", "7", "x 1", "b", "c,d"],
            "balance": pa.array([100, 150, None, 50, 100], pa.decimal128(9, 2)),
            "country": pa.array(["DE", "FR", "DE", None, "FR"]).dictionary_encode(),
            "risk": pa.array([b"low", b"high", None, b"low", b"high"]),
        }
    )
    edges = pa.table({"from": ["007", "x 1", "b"], "to": ["7", "x 1", "c,d"]})
    assert imported(tmp_path, nodes, edges).graph.digest() == imported(tmp_path).graph.digest()


@pytest.mark.parametrize(
    "labels",
    [
        pa.array([1.0, 0.0, None]),
        pa.array([1, 0, None]),
        pa.array([1.0, 0.0, float("nan")]),
        pa.array(["1.0", "0", ""]),
        pa.array([" 1", "0.0 ", "  "]),
    ],
)
def test_labels_are_compared_as_text(tmp_path: Path, labels: pa.Array) -> None:
    schema = Schema(columns=(NumericColumn(name="x"),), labels=("0", "1"))
    nodes = pa.table({"account": [1, 2, 3], "x": [1, 2, 3], "risk": labels})
    edges = pa.table({"from": [1], "to": [2]})
    graph = import_tables(files(tmp_path, nodes, edges), schema).graph
    assert graph.labels.tolist() == [1, 0, UNLABELLED]


def test_mostly_zero_features_are_stored_sparse(tmp_path: Path) -> None:
    wide = Schema(
        columns=(
            NumericColumn(name="balance", mean=100, std=50),
            CategoricalColumn(name="country", categories=("DE", *map(str, range(20)), "FR")),
        ),
        labels=SCHEMA.labels,
    )
    sparse = import_tables(files(tmp_path), wide).graph
    dense = imported(tmp_path).graph
    assert isinstance(sparse.features, csr_array)
    assert isinstance(dense.features, np.ndarray)
    kept = [0, 1, 22]
    assert (sparse.dense_features()[:, kept] == dense.features).all()
    assert sparse.dense_features().sum() == dense.features.sum()
    assert sparse.features.indptr[-1] == np.count_nonzero(dense.features)


def test_a_failed_save_leaves_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = imported(tmp_path)
    result.save(tmp_path / "bank")
    before = {path.name: path.read_bytes() for path in (tmp_path / "bank").iterdir()}

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(FedGTError, match="No space left"):
        result.save(tmp_path / "bank", force=True)
    assert {path.name: path.read_bytes() for path in (tmp_path / "bank").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("accounts.csv", "bank", "transfers.csv")
    ]


@pytest.mark.parametrize("name", ["consortium", pytest.param("cora", marks=pytest.mark.slow)])
def test_a_whole_dataset_round_trips_through_csv(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "cora" and not DATASETS.is_dir():
        pytest.skip(f"the raw files of {name} are not in ../shared/datasets")
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    graph = load_dataset(name, data_dir=DATASETS if name == "cora" else None)
    features = graph.dense_features()
    schema = Schema(
        columns=tuple(NumericColumn(name=f"x{place}") for place in range(features.shape[1])),
        labels=graph.class_names,
    )
    ids = pa.array([f"node {node}" for node in range(graph.num_nodes)])
    labels = pa.array(graph.class_names).take(pa.array(graph.labels))
    columns = {f"x{place}": column.astype(float) for place, column in enumerate(features.T)}
    arrow_csv.write_csv(
        pa.table({"account": ids, "risk": labels, **columns}), tmp_path / "accounts.csv"
    )
    sources, targets = (ids.take(pa.array(ends)) for ends in graph.arcs())
    arrow_csv.write_csv(pa.table({"from": sources, "to": targets}), tmp_path / "transfers.csv")
    tables = Tables(tmp_path / "accounts.csv", tmp_path / "transfers.csv", **COLUMNS)
    import_tables(tables, schema).save(tmp_path / "bank")
    again = Graph.open(tmp_path / "bank")
    assert again.num_edges == graph.num_edges
    for part in ("indptr", "indices", "labels"):
        assert (getattr(again, part) == getattr(graph, part)).all()
    assert (again.dense_features() == features).all()
