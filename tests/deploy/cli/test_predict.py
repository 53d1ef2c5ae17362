"""``fedgt predict``, ``evaluate`` and ``export``, as a person at an institution meets them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

from tests.fedgt_client.tables import BankTables, bank_tables
from tests.fedgt_client.trained_kits import make_kit, train
from tests.harness.kits import fedgt as run_fedgt

Run = Callable[..., tuple[int, str, str]]

OLD, ALL = 60, 80


@pytest.fixture(scope="module")
def tables() -> BankTables:
    return bank_tables(ALL, positives=0.3)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tables: BankTables) -> Path:
    """Train once; every test works on a copy."""
    place = tmp_path_factory.mktemp("bank")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDGT_CACHE", str(place / "cache"))
        train(make_kit(place, tables.old(OLD)), 3)
    tables.added(OLD).write(place, "new-")
    bank_tables(50, seed=9).imported(place / "other-csv").save(place / "other")
    return place


@pytest.fixture
def bank(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a working folder with a kit, files of new nodes and links, and another's data."""
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("fedgt_client.predict.assessment._RESAMPLES", 10)
    place = Path(shutil.copytree(made, tmp_path / "work"))
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def fedgt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: run_fedgt(capsys, monkeypatch, *arguments)


def replaced(path: str, old: str, new: str) -> Callable[[Path], None]:
    """Return a change of a file of the working folder."""

    def change(place: Path) -> None:
        text = (place / path).read_text()
        assert old in text
        (place / path).write_text(text.replace(old, new))

    return change


def emptied(path: str) -> Callable[[Path], None]:
    return lambda place: (place / path).write_text("")  # type: ignore[return-value]


def with_row(path: str, row: str) -> Callable[[Path], None]:
    return lambda place: (place / path).write_text((place / path).read_text() + row + "\n")  # type: ignore[return-value]


def other_schema(place: Path) -> None:
    replaced("bank-a/data/schema.json", '"mean": 1.0', '"mean": 2.0')(place)


NEW = ("--nodes", "new-accounts.csv", "--edges", "new-transfers.csv")


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (other_schema, (), "another schema"),
        (replaced("new-accounts.csv", "balance", "saldo"), NEW, "has no column 'balance'"),
        (with_row("new-accounts.csv", '"x",1,1,"XX","good"'), NEW, "'XX' is not a category"),
        (with_row("new-accounts.csv", '"x",nan,1,"DE","good"'), NEW, "is not a finite number"),
        (with_row("new-accounts.csv", '"a1",1,1,"DE","good"'), NEW, "is in the graph already"),
        (with_row("new-transfers.csv", '"a1","zz"'), NEW, "'zz' is not an id of the graph"),
        (emptied("new-accounts.csv"), NEW, "new-accounts.csv is empty"),
        (emptied("new-transfers.csv"), NEW, "new-transfers.csv is empty"),
        (None, ("--run", "other"), "has no run 'other'; there are: first"),
        (None, ("--data", "other"), "not what the model of bank-a was trained on"),
        (None, ("--data", "nowhere"), "holds no graph"),
        (None, ("--nodes", "nowhere.csv"), "nowhere.csv: no such file"),
        (emptied("bank-a/data/graph.json"), (), "graph.json is not valid JSON"),
        (None, ("--changed-data", "--data", "other"), "is not calibrated yet"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    bank: Path,
    fedgt: Run,
    change: Callable[[Path], None] | None,
    options: tuple[str, ...],
    message: str,
) -> None:
    if change:
        change(bank)
    before = sorted(bank.rglob("*"))
    code, out, err = fedgt("predict", "bank-a", "--out", "scores.parquet", *options)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert sorted(bank.rglob("*")) == before


def test_predictions_of_all_nodes(bank: Path, fedgt: Run) -> None:
    code, out, _ = fedgt("predict", "bank-a", "--out", "scores.parquet")
    assert code == 0
    assert "60 nodes, by the model of bank-a, method fedgt, run first" in out
    assert "round 3" in out
    assert pq.read_table("scores.parquet").num_rows == OLD
    code, _, err = fedgt("predict", "bank-a", "--out", "scores.parquet")
    assert code == 2
    assert "exists already" in err


def test_predictions_of_new_nodes(bank: Path, fedgt: Run) -> None:
    code, out, _ = fedgt("predict", "bank-a", "--out", "new.csv", *NEW, "--json")
    assert code == 0
    said = json.loads(out)
    assert (said["rows"], said["new"], said["run"], said["round"]) == (20, 20, "first", 3)
    table = arrow_csv.read_csv("new.csv")
    assert table["id"].to_pylist() == [f"a{i}" for i in range(OLD, ALL)]
    assert fedgt("predict", "bank-a", "--out", "all.csv", *NEW, "--all")[0] == 0
    assert arrow_csv.read_csv("all.csv").num_rows == ALL


def test_changed_data_after_an_evaluation(bank: Path, fedgt: Run) -> None:
    assert fedgt("evaluate", "bank-a")[0] == 0
    options = ("--changed-data", "--data", "other")
    code, out, _ = fedgt("predict", "bank-a", "--out", "other.csv", *options)
    assert code == 0
    assert "50 nodes" in out
    assert fedgt("explain", "bank-a", "--id", "a7", *options)[0] == 0
    code, _, err = fedgt("explain", "bank-a", "--id", "a7", "--data", "other")
    assert code == 2
    assert "--changed-data" in err


def test_an_exported_model_predicts_the_same_elsewhere(bank: Path, fedgt: Run) -> None:
    assert fedgt("evaluate", "bank-a", "--recall", "0.8")[0] == 0
    assert fedgt("predict", "bank-a", "--out", "here.parquet", *NEW)[0] == 0
    code, out, _ = fedgt("export", "bank-a", "--out", "model", "--json")
    assert code == 0
    assert json.loads(out)["files"] == [
        *("model-card.md", "model.json", "schema.json", "weights.safetensors"),
    ]
    shutil.move("bank-a/data", "graph")
    shutil.rmtree("bank-a")
    options = ("--data", "graph", *NEW)
    assert fedgt("predict", "model", "--out", "there.parquet", *options)[0] == 0
    here, there = pq.read_table("here.parquet"), pq.read_table("there.parquet")
    assert here.equals(there)
    code, _, err = fedgt("predict", "model", "--out", "no.parquet")
    assert code == 2
    assert "name its folder by --data" in err
    for command in (("export", "model", "--out", "again"), ("evaluate", "model")):
        code, _, err = fedgt(*command, "--data", "graph")
        assert code == 2
        assert "is an exported model" in err


def test_evaluation_for_people_and_for_programs(bank: Path, fedgt: Run) -> None:
    code, out, _ = fedgt("evaluate", "bank-a", "--cost-ratio", "5", "--positive", "bad")
    assert code == 0
    for text in ("balanced accuracy", "average precision", "temperature", "threshold: bad where"):
        assert text in out
    code, out, _ = fedgt("evaluate", "bank-a", "--json")
    found = json.loads(out)
    assert found["calibration"]["threshold"] is None
    assert found["test"]["metrics"]["nodes"] == 24
    assert {"accuracy", "roc_auc"} <= found["test"]["intervals"].keys()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--recall", "0.5", "--cost-ratio", "2"), "exclude each other"),
        (("--positive", "bad"), "--positive needs --recall or --cost-ratio"),
        (("--recall", "0"), "the wanted recall is 0"),
        (("--recall", "0.5", "--positive", "evil"), "expected one of: good, bad"),
    ],
)
def test_thresholds_that_cannot_be_chosen(
    bank: Path, fedgt: Run, options: tuple[str, ...], message: str
) -> None:
    code, _, err = fedgt("evaluate", "bank-a", *options)
    assert code == 2
    assert message in err
    assert not list(bank.rglob("evaluation.json"))


def test_an_export_replaces_nothing(bank: Path, fedgt: Run) -> None:
    (bank / "model").mkdir()
    code, _, err = fedgt("export", "bank-a", "--out", "model")
    assert code == 2
    assert "exists already" in err
    assert not list((bank / "model").iterdir())


def test_where_nothing_can_be_written(bank: Path, fedgt: Run) -> None:
    before = sorted(bank.rglob("*"))
    for command, target in (
        (("export", "bank-a", "--out"), "new-accounts.csv/model"),
        (("explain", "bank-a", "--id", "a7", "--picture"), "nowhere/a7.svg"),
        (("predict", "bank-a", "--out"), "new-accounts.csv/scores.csv"),
    ):
        code, out, err = fedgt(*command, target)
        assert (code, out) == (2, "")
        assert f"{target} cannot be written" in err
        assert len(err.splitlines()) == 1
    assert sorted(bank.rglob("*")) == before


def test_an_explanation_as_table_picture_and_json(bank: Path, fedgt: Run) -> None:
    code, out, _ = fedgt("explain", "bank-a", "--id", "a7", "--picture", "a7.svg")
    assert code == 0
    assert "neighbour" in out
    assert "global node" in out
    assert (bank / "a7.svg").read_text().startswith("<svg")
    code, out, _ = fedgt("explain", "bank-a", "--id", f"a{OLD}", *NEW, "--json")
    assert code == 0
    assert json.loads(out)["influences"][0]["name"] == f"a{OLD}"
    for options, message in (
        (("--id", "zz"), "there is no node with the id 'zz'"),
        (("--id", "a7", "--picture", "a7.png"), "must end in .svg"),
        (("--id", "a7", "--picture", "a7.svg"), "exists already"),
    ):
        code, _, err = fedgt("explain", "bank-a", *options)
        assert code == 2
        assert message in err
