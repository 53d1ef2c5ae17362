"""Predictions: what they equal, what they are written as, what they need."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from fedgt_client.data.own_data import OwnData
from fedgt_client.graph import Graph
from fedgt_client.methods import METHODS
from fedgt_client.predict import load_model, open_data
from fedgt_client.predict.output import check_output, write_predictions
from fedgt_client.predict.source import calibrated, open_source
from shared.errors import FedGTError
from tests.fedgt_client.graphs import two_groups
from tests.fedgt_client.methods.baselines import federated, institution
from tests.fedgt_client.tables import bank_tables
from tests.fedgt_client.trained_kits import make_kit, train


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    kit = make_kit(tmp_path)
    train(kit)
    return kit


@pytest.mark.parametrize("name", ["scores.txt", "scores"])
def test_an_output_of_another_format(tmp_path: Path, name: str) -> None:
    with pytest.raises(FedGTError, match=r"must end in \.csv or \.parquet"):
        check_output(tmp_path / name, force=False)


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "old.csv").touch()
    with pytest.raises(FedGTError, match="exists already"):
        check_output(tmp_path / "old.csv", force=False)
    check_output(tmp_path / "old.csv", force=True)
    with pytest.raises(FedGTError, match="is not a folder"):
        check_output(tmp_path / "nowhere" / "new.csv", force=False)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FedGTError, match=r"folder\.csv is a folder"):
        check_output(tmp_path / "folder.csv", force=True)


def test_data_with_other_features_classes_or_scaling(kit: Path) -> None:
    model, data = load_model(kit), open_data(kit / "data")
    with pytest.raises(FedGTError, match=r"other features .* 'balance' is missing"):
        model.predict(two_groups())
    names = data.graph.feature_names
    with pytest.raises(FedGTError, match=r"other features .* their order differs"):
        model.predict(replace(data.graph, feature_names=names[::-1]))
    with pytest.raises(FedGTError, match=r"other classes .* 'worst' is not among"):
        model.predict(replace(data.graph, class_names=("good", "bad", "worst")))
    assert data.schema is not None
    column = data.schema.columns[0].model_copy(update={"mean": 7.0})
    scaled = data.schema.model_copy(update={"columns": (column, *data.schema.columns[1:])})
    with pytest.raises(FedGTError, match="another schema"):
        model.predict(replace(data, schema=scaled))


def test_features_that_are_not_finite(kit: Path) -> None:
    model, graph = load_model(kit), open_data(kit / "data").graph
    features = graph.dense_features().copy()
    features[3, 0] = np.nan
    with pytest.raises(FedGTError, match=r"of 60 nodes have no score: .* not finite"):
        model.predict(replace(graph, features=features))


def test_weights_of_another_model(kit: Path) -> None:
    model, data = load_model(kit), open_data(kit / "data")
    arrays = dict(model.arrays)
    name = next(name for name in arrays if name.endswith("head.weight"))
    with pytest.raises(FedGTError, match=f"another model: {name} is missing"):
        replace(model, arrays={k: v for k, v in arrays.items() if k != name}).predict(data)
    with pytest.raises(FedGTError, match=f"another model: {name} is \\(2, 3\\), expected"):
        replace(model, arrays=arrays | {name: np.zeros((2, 3), np.float32)}).predict(data)
    bad = np.full_like(arrays[name], np.nan)
    with pytest.raises(FedGTError, match=f"damaged: {name} is not finite"):
        replace(model, arrays=arrays | {name: bad}).predict(data)


# Gophormer samples neighbours at random in evaluation, too: its accuracy is no fixed number.
@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"gophormer"}))
def test_accuracy_equals_that_of_training(method: str) -> None:
    graph = two_groups()
    trained = institution(method, graph)
    measured = federated(trained, 4)[-1].metrics
    state = {name: a for name, a in trained.state_dict().items() if not name.startswith("adam.")}
    restored = institution(method, graph)
    restored.load_state_dict(state)
    predicted = restored.predict(np.arange(graph.num_nodes)).argmax(axis=1)
    for split in ("val", "test"):
        mask = getattr(graph, split)
        share = np.float32((predicted[mask] == graph.labels[mask]).mean())
        assert measured[f"{split}_accuracy"] == float(share)


def test_the_best_round_is_the_one_that_predicts(tmp_path: Path) -> None:
    kit = make_kit(tmp_path)
    metrics = train(kit, 4, best=2)
    model, data = load_model(kit), open_data(kit / "data")
    assert model.round_number == 2
    assert "run first" in model.describe()
    table = model.predict(data)
    test = data.graph.test
    names = np.array(data.graph.class_names)
    right = np.array(table["predicted"])[test] == names[data.graph.labels[test]]
    assert float(np.float32(right.mean())) == metrics[2]["test_accuracy"]


def test_the_table(kit: Path) -> None:
    data = open_data(kit / "data")
    table = load_model(kit).predict(data)
    assert table.column_names == [
        *("id", "predicted", "probability_good", "probability_bad"),
        *("labelled", "split", "linked", "new"),
    ]
    assert table["id"].to_pylist() == data.ids.to_pylist()
    total = table["probability_good"].to_numpy() + table["probability_bad"].to_numpy()
    np.testing.assert_allclose(total, 1.0)
    assert table["split"].to_pylist().count("test") == data.graph.test.sum()
    assert b"run first" in table.schema.metadata[b"fedgt_model"]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_what_is_written_is_the_table(tmp_path: Path, kit: Path, suffix: str) -> None:
    model, data = load_model(kit), open_data(kit / "data")
    target, seen = tmp_path / f"scores{suffix}", list[int]()
    rows = write_predictions(model, data, model.scores(data), target, progress=seen.append)
    assert rows == seen[-1] == data.graph.num_nodes
    expected = model.predict(data)
    found = arrow_csv.read_csv(target) if suffix == ".csv" else pq.read_table(target)
    assert found.column("id").to_pylist() == expected.column("id").to_pylist()
    for name in ("probability_good", "probability_bad"):
        assert found.column(name).to_pylist() == expected.column(name).to_pylist()


def test_new_nodes_score_as_if_imported_with_the_others(tmp_path: Path) -> None:
    tables = bank_tables(60)
    kit = make_kit(tmp_path, tables.old(40))
    train(kit)
    model, data, added = load_model(kit), open_data(kit / "data"), tables.added(40)
    attached = data.attach(added.nodes.drop_columns(["risk"]), added.edges)
    whole = tables.imported(tmp_path / "whole").graph
    np.testing.assert_array_equal(model.scores(attached), model.scores(whole))
    assert model.predict(attached)["new"].to_pylist() == [False] * 40 + [True] * 20


def test_the_order_of_new_nodes_and_links_does_not_matter(tmp_path: Path) -> None:
    tables = bank_tables(60)
    kit = make_kit(tmp_path, tables.old(40))
    train(kit)
    model, data, added = load_model(kit), open_data(kit / "data"), tables.added(40)
    rng = np.random.default_rng(3)
    nodes = added.nodes.take(rng.permutation(added.nodes.num_rows))
    edges = added.edges.take(rng.permutation(added.edges.num_rows))
    straight, shuffled = data.attach(added.nodes, added.edges), data.attach(nodes, edges)
    place = [shuffled.position(node) for node in straight.ids.to_pylist()]
    # PPR sums in another order, and values that are equal but for rounding may change places.
    np.testing.assert_allclose(model.scores(shuffled)[place], model.scores(straight), atol=2e-2)


def test_a_node_without_links_is_scored_and_marked(kit: Path) -> None:
    data = open_data(kit / "data")
    node = {"account": ["n1"], "balance": [3.0], "age": [4], "country": ["DE"]}
    table = load_model(kit).predict(data.attach(pa.table(node)))
    last = table.slice(table.num_rows - 1).to_pylist()[0]
    assert (last["id"], last["linked"], last["new"]) == ("n1", False, True)
    assert 0.0 < last["probability_bad"] < 1.0


def test_calibration_is_kept_and_made_anew_for_another_round(tmp_path: Path) -> None:
    kit = make_kit(tmp_path)
    train(kit, 3, best=1)
    source, data = open_source(kit), open_data(kit / "data")
    assert source.assessment is None
    first = calibrated(source, data, source.model.scores(data))
    kept = open_source(kit)
    assert kept.assessment == first.assessment
    assert kept.model.calibration.temperature != 1.0
    train(kit, 3, best=3)
    assert open_source(kit).assessment is None


def test_a_graph_without_ids_is_numbered() -> None:
    graph: Graph = two_groups(6)
    assert OwnData.of(graph).ids.to_pylist() == ["0", "1", "2", "3", "4", "5"]


def test_metrics_are_logged_at_the_institution(kit: Path) -> None:
    [log] = kit.rglob("metrics.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert all(0 <= line["test_accuracy"] <= 1 for line in lines)
