"""``fedgt data schema`` and ``fedgt data import``, as a person at an institution meets them."""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from math import log
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deploy.cli import main
from fedgt_client.data.own_data import OwnData
from fedgt_client.graph import Graph

NODES = """account,balance,country,risk,part
a1,100,DE,low,train
a2,150,FR,high,val
a3,,DE,,
a4,50,,low,test
"""
EDGES = """from,to
a1,a2
a3,a4
"""
SCHEMA = {
    "version": 1,
    "columns": [
        {"name": "balance", "type": "numeric", "mean": 100, "std": 50},
        {"name": "country", "type": "categorical", "categories": ["DE", "FR"]},
    ],
    "labels": ["low", "high"],
}
PARQUET_NODES = pa.table(
    {
        "account": ["a1", "a2", "a3", "a4"],
        "balance": [1.0, 2.0, 3.0, 4.0],
        "country": ["DE"] * 4,
        "risk": ["low"] * 4,
    }
)

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a working folder with good files."""
    (tmp_path / "accounts.csv").write_text(NODES)
    (tmp_path / "transfers.csv").write_text(EDGES)
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def fedgt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in this process: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedgt", "data", *arguments])
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        assert isinstance(code, int)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def import_arguments(*more: str, **changed: str) -> list[str]:
    options = {
        "nodes": "accounts.csv",
        "edges": "transfers.csv",
        "id": "account",
        "label": "risk",
        "source": "from",
        "target": "to",
        "schema": "schema.json",
        "out": "bank",
    } | changed
    named = [(f"--{name.replace('_', '-')}", value) for name, value in options.items()]
    return ["import", *(part for pair in named for part in pair), *more]


def refused(answer: tuple[int, str, str], *parts: str) -> None:
    """Check for one line on standard error with all the parts, exit code 2, no output."""
    code, out, err = answer
    assert code == 2
    assert out == ""
    assert err.count("\n") == 1, err
    assert err.startswith("fedgt: ")
    for part in parts:
        assert part in err


def cell(row: int, column: str, file: str = "accounts.csv") -> tuple[str, str]:
    return f"{file}, line {row + 1} (data row {row})", f"column '{column}'"


NODE_FAULTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "duplicate id": (
        NODES + "a2,1,DE,low,\n",
        ("column 'account'", "'a2' in line 3 (data row 2) and line 6 (data row 5)", "--on-dup"),
    ),
    "duplicate id but for blanks": (NODES + " a2 ,1,DE,low,\n", ("column 'account'", "'a2'")),
    "duplicate ids": (
        NODES + "a2,1,DE,low,\na4,,,,\na2,1,DE,,\n",
        ("2 ids occur", "'a2' in line 3", "'a4' in line 5 (data row 4) and line 7 (data row 6)"),
    ),
    "empty id": (NODES + ",1,DE,low,\n", (*cell(5, "account"), "empty")),
    "blank id": (NODES + "  ,1,DE,low,\n", (*cell(5, "account"), "empty")),
    "not a number": (NODES + "a5,12k,DE,low,\n", (*cell(5, "balance"), "'12k'")),
    "decimal comma": (NODES + 'a5,"1,5",DE,low,\n', (*cell(5, "balance"), "'1,5'")),
    "NA": (NODES + "a5,NA,DE,low,\n", (*cell(5, "balance"), "'NA'")),
    "nan": (NODES + "a5,NaN,DE,low,\n", (*cell(5, "balance"), "nan")),
    "infinite": (NODES + "a5,-inf,DE,low,\n", (*cell(5, "balance"), "-inf")),
    "overflow": (NODES + "a5,1e999,DE,low,\n", (*cell(5, "balance"), "finite")),
    "overflow after scaling": (NODES + "a5,1e300,DE,low,\n", cell(5, "balance")),
    "unknown category": (NODES + "a5,1,de,low,\n", (*cell(5, "country"), "'de'")),
    "unknown label": (NODES + "a5,1,DE,lowish,\n", (*cell(5, "risk"), "'lowish'")),
    "missing id column": (NODES.replace("account", "nr"), ("'account'", "'nr', 'balance'")),
    "missing feature": (NODES.replace("balance", "money"), ("'balance'", "'money'")),
    "missing label column": (NODES.replace("risk", "class"), ("'risk'", "'class'")),
    "two columns alike": (NODES.replace("part", "risk"), ("accounts.csv", "two", "'risk'")),
    "semicolons, a decimal comma": (
        (NODES + "a5,1.5,DE,low,\n").replace(",", ";").replace("1.5", "1,5"),
        (*cell(5, "balance"), "'1,5'", "--decimal-comma"),
    ),
    "no known separator": (NODES.replace(",", ":"), ("accounts.csv", "'account:balance:")),
    "empty file": ("", ("accounts.csv is empty",)),
    "blank file": ("\n\n  \n", ("accounts.csv is empty",)),
    "header only": (NODES.split("\n")[0] + "\n", ("accounts.csv", "no rows")),
    "header only, no line end": (NODES.split("\n")[0], ("accounts.csv", "no rows")),
    "short row": (NODES + "a5,1,DE\n", ("accounts.csv, line 6 (data row 5)", "3 cells", "5")),
    "long row": (NODES + "a5,1,DE,low,,,\n", ("accounts.csv, line 6 (data row 5)", "7 cells")),
    "open quote": (NODES + 'a5,1,DE,low,"\na6,1,DE,low,\n', ("accounts.csv, line 6", "quoted")),
    "two open quotes": (
        NODES + 'a5,1,DE,low,"\na6,1,DE,low,\na7,1,DE,low,"x\n',
        ("accounts.csv, line 6", "quoted"),
    ),
    "line breaks in cells": (
        NODES + 'a5,1,DE,low,"a\nb\nc"\n\na6,x,DE,low,\n',
        ("line 10 (data row 6)", "column 'balance'", "'x'"),
    ),
    "line break in the fault": (NODES + 'a5,"x\ny",DE,low,\n', (*cell(5, "balance"), r"'x\ny'")),
}


@pytest.mark.parametrize("fault", NODE_FAULTS)
def test_a_fault_in_the_nodes_is_one_line(bank: Path, fedgt: Run, fault: str) -> None:
    content, parts = NODE_FAULTS[fault]
    (bank / "accounts.csv").write_text(content)
    refused(fedgt(*import_arguments()), *parts)
    assert not (bank / "bank").exists()
    assert len(list(bank.iterdir())) == 3


EDGE_FAULTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "unknown source": (EDGES + "a9,a1\n", (*cell(3, "from", "transfers.csv"), "'a9'", "accounts")),
    "unknown target": (EDGES + "a1,a9\n", (*cell(3, "to", "transfers.csv"), "'a9'")),
    "empty source": (EDGES + ",a1\n", (*cell(3, "from", "transfers.csv"), "empty")),
    "empty target": (EDGES + "a1,\n", (*cell(3, "to", "transfers.csv"), "empty")),
    "missing column": (EDGES.replace("to", "dest"), ("transfers.csv", "'to'", "'from', 'dest'")),
    "no edges": ("from,to\n", ("transfers.csv", "no rows")),
    "only self-loops": ("from,to\na1,a1\n", ("transfers.csv", "no link")),
    "empty": ("", ("transfers.csv is empty",)),
    "short row": (EDGES + "a1\n", ("transfers.csv, line 4 (data row 3)", "1 cell")),
}


@pytest.mark.parametrize("fault", EDGE_FAULTS)
def test_a_fault_in_the_edges_is_one_line(bank: Path, fedgt: Run, fault: str) -> None:
    content, parts = EDGE_FAULTS[fault]
    (bank / "transfers.csv").write_text(content)
    refused(fedgt(*import_arguments()), *parts)
    assert len(list(bank.iterdir())) == 3


FOREIGN: dict[str, tuple[str, bytes, tuple[str, ...]]] = {
    "parquet as csv": ("x.csv", b"PAR1\x15\x04PAR1", ("not a CSV", "Parquet")),
    "gzip as csv": ("x.csv", b"\x1f\x8b\x08\x00abc", ("not a CSV", ".csv.gz")),
    "text as gzip": ("x.csv.gz", NODES.encode(), ("cannot be read",)),
    "half a gzip": ("x.csv.gz", gzip.compress(NODES.encode())[:40], ("damaged",)),
    "not what gzip says": ("x.csv.gz", b"\x1f\x8b\x08\x00" + b"abc" * 20, ("x.csv.gz",)),
    "workbook as csv": ("x.csv", b"PK\x03\x04abc", ("not a CSV", "Excel")),
    "garbage as csv": ("x.csv", bytes(range(1, 256)) * 9, ("x.csv",)),
    "zeros as csv": ("x.csv", b"a,b\n\0\0\0", ("not a CSV",)),
    "utf-16": ("x.csv", NODES.encode("utf-16"), ("not a CSV", "UTF-16")),
    "latin-1 header": ("x.csv", NODES.replace("part", "größe").encode("latin-1"), ("line 1",)),
    "latin-1 cell": (
        "x.csv",
        (NODES + "a5,1,Ö,low,\n").encode("latin-1"),
        ("line 6 (data row 5)", "'country'", "UTF-8"),
    ),
    "csv as parquet": ("x.parquet", NODES.encode(), ("x.parquet is not a Parquet file",)),
    "garbage as parquet": ("x.parquet", b"\x93\0\1" * 99, ("not a Parquet file",)),
    "cut parquet": ("x.parquet", b"PAR1" + b"\0" * 99, ("damaged",)),
    "empty parquet": ("x.parquet", b"", ("x.parquet is empty",)),
    "other suffix": ("x.xlsx", b"a,b", (".csv, .csv.gz or .parquet",)),
    "no suffix": ("x", b"a,b", (".csv, .csv.gz or .parquet",)),
}


@pytest.mark.parametrize("fault", FOREIGN)
@pytest.mark.parametrize("option", ["nodes", "edges"])
def test_a_file_that_is_not_what_its_name_says(
    bank: Path, fedgt: Run, option: str, fault: str
) -> None:
    name, content, parts = FOREIGN[fault]
    if option == "edges" and fault == "latin-1 cell":
        content, parts = b"from,to\na1,\xd6\n", ("line 2 (data row 1)", "'to'", "UTF-8")
    (bank / name).write_bytes(content)
    refused(fedgt(*import_arguments(**{option: name})), name, *parts)
    assert not (bank / "bank").exists()


def test_texts_and_nan_of_parquet_can_stand_for_empty_cells(bank: Path, fedgt: Run) -> None:
    changed = {
        "balance": pa.array([1.0, float("nan"), 3.0, 4.0], pa.float16()),
        "country": pa.array(["DE", "?", "FR", "DE"]).dictionary_encode(),
        "risk": ["low", "NaN", "high", "low"],
    }
    columns = {name: PARQUET_NODES[name] for name in PARQUET_NODES.column_names} | changed
    pq.write_table(pa.table(columns), bank / "accounts.parquet")
    refused(fedgt(*import_arguments(nodes="accounts.parquet")), "'NaN' is not a label")
    options = ("--json", "--empty", "NaN", "--empty", "?")
    code, out, _ = fedgt(*import_arguments(*options, nodes="accounts.parquet"))
    assert code == 0
    summary = json.loads(out)
    assert (summary["imputed"], summary["missing_categories"], summary["unlabelled"]) == (1, 1, 1)


def test_many_duplicate_ids_are_listed_up_to_ten(bank: Path, fedgt: Run) -> None:
    rows = [f"b{i // 2},1,DE,low,\n" for i in range(24)]
    (bank / "accounts.csv").write_text(NODES + "".join(rows))
    refused(fedgt(*import_arguments()), "12 ids occur", "'b9' in line 24", "; and 2 more")


def test_links_to_unknown_ids_can_be_left_out(bank: Path, fedgt: Run) -> None:
    links = (bank / "transfers.csv").read_text()
    (bank / "transfers.csv").write_text(links + "a1,elsewhere\nelsewhere,abroad\n")
    refused(fedgt(*import_arguments()), "'elsewhere' is not an id", "--on-unknown drop")
    assert not (bank / "bank").exists()
    code, out, _ = fedgt(*import_arguments("--json", on_unknown="drop"))
    assert code == 0
    summary = json.loads(out)
    assert (summary["links"], summary["unknown_links"]) == (2, 2)
    # Links that are added later are read in the same way.
    (bank / "later.csv").write_text("from,to\na1,a3\na1,elsewhere\n")
    assert OwnData.open(bank / "bank").attach(edges=bank / "later.csv").graph.num_edges == 3


def test_the_first_row_of_a_duplicate_id_can_be_kept(bank: Path, fedgt: Run) -> None:
    (bank / "accounts.csv").write_text(NODES.replace("a3,", "a2,9,FR,low,\na3,"))
    code, out, _ = fedgt(*import_arguments("--json", on_duplicate="first"))
    assert code == 0
    summary = json.loads(out)
    assert (summary["nodes"], summary["duplicate_ids"]) == (4, 1)
    graph = Graph.open(bank / "bank")
    # Row 3, which repeats a2, counts nowhere; the rows after it keep their links and labels.
    assert graph.dense_features()[:, 0].tolist() == [0, 1, 0, -1]
    assert graph.labels.tolist() == [0, 1, -1, 0]
    assert graph.indices.tolist() == [1, 0, 3, 2]
    # An error after the dropped row names the line of the file.
    (bank / "accounts.csv").write_text(NODES.replace("a3,", "a2,9,FR,low,\na3,x"))
    refused(fedgt(*import_arguments(on_duplicate="first", out="b")), *cell(4, "balance"))


WEIGHT_FAULTS = {
    "empty": ("", "the weight is empty"),
    "zero": ("0", "weight 0 is not a positive number"),
    "negative": ("-3", "weight -3 is not"),
    "text": ("much", "'much' is not a number"),
    "infinite": ("inf", "not a finite number"),
    "nan": ("nan", "not a finite number"),
    "too large": ("1e39", "weight 1e+39 is not a positive number (of 32 bits)"),
    "too small": ("1e-60", "weight 1e-60 is not"),
}


@pytest.mark.parametrize("fault", WEIGHT_FAULTS)
def test_a_fault_in_the_weights_is_one_line(bank: Path, fedgt: Run, fault: str) -> None:
    weight, part = WEIGHT_FAULTS[fault]
    (bank / "transfers.csv").write_text(f"from,to,amount\na1,a2,1\na3,a4,{weight}\n")
    arguments = import_arguments(weight="amount")
    refused(fedgt(*arguments), *cell(2, "amount", "transfers.csv"), part)
    refused(fedgt(*import_arguments(weight="sum")), "transfers.csv", "'sum'", "'amount'")
    refused(fedgt(*import_arguments(weight="to")), "'to'", "target and the weight")
    assert len(list(bank.iterdir())) == 3


def test_texts_that_stand_for_empty_cells(bank: Path, fedgt: Run) -> None:
    assert fedgt(*import_arguments(out="plain"))[0] == 0
    marked = NODES.replace("a3,,DE,,", "a3,NA,DE,?,NA").replace("a4,50,,", "a4,50,?,")
    (bank / "accounts.csv").write_text(marked)
    refused(fedgt(*import_arguments()), *cell(3, "risk"), "'?' is not a label")
    refused(fedgt(*import_arguments("--empty", "?")), *cell(3, "balance"), "'NA' is not a number")
    texts = ("--empty", "NA", "--empty", "?")
    code, out, _ = fedgt(*import_arguments(*texts, "--json"))
    assert code == 0
    assert json.loads(out)["imputed_columns"] == {"balance": 1}
    assert Graph.open(bank / "bank").digest() == Graph.open(bank / "plain").digest()
    assert fedgt(*schema_arguments("--exclude", "part", *texts))[0] == 0
    document = json.loads((bank / "new.json").read_text())
    assert [column["type"] for column in document["columns"]] == ["numeric", "categorical"]
    # Nodes that are added later are read in the same way.
    (bank / "more.csv").write_text("account,balance,country\na5,NA,?\n")
    grown = OwnData.open(bank / "bank").attach(bank / "more.csv")
    assert not grown.graph.dense_features()[4].any()


def test_weights_of_parallel_links_are_added_up(bank: Path, fedgt: Run) -> None:
    rows = ("a1,a2,1.5", "a2,a1,2", "a3,a4,0.25", "a1,a2,4", "a4,a4,9")
    (bank / "transfers.csv").write_text("\n".join(("from,to,amount", *rows)))
    code, out, _ = fedgt(*import_arguments(weight="amount"))
    assert code == 0
    assert "parallel links added up" in out
    weights = Graph.open(bank / "bank").weights
    assert weights is not None
    assert weights.tolist() == [7.5, 7.5, 0.25, 0.25]
    assert fedgt(*import_arguments("--directed", weight="amount", out="way"))[0] == 0
    weights = Graph.open(bank / "way").weights
    assert weights is not None
    assert weights.tolist() == [5.5, 2, 0.25]
    assert fedgt(*import_arguments(out="plain"))[0] == 0
    assert Graph.open(bank / "plain").weights is None


def test_missing_files_and_folders_are_refused(bank: Path, fedgt: Run) -> None:
    (bank / "folder.csv").mkdir()
    (bank / "folder.parquet").mkdir()
    refused(fedgt(*import_arguments(nodes="none.csv")), "none.csv", "no such file")
    refused(fedgt(*import_arguments(edges="none.parquet")), "none.parquet", "no such file")
    refused(fedgt(*import_arguments(schema="none.json")), "none.json", "no such file")
    refused(fedgt(*import_arguments(nodes="folder.csv")), "folder.csv", "cannot be read")
    refused(fedgt(*import_arguments(edges="folder.parquet")), "folder.parquet", "cannot be read")


PARQUET_FAULTS: dict[str, tuple[dict[str, pa.Array], tuple[str, ...]]] = {
    "duplicate": ({"account": pa.array([1, 2, 3, 2])}, ("'account'", "'2' in row 2 and row 4")),
    "null id": ({"account": pa.array([1, None, 3, 2])}, ("row 2", "'account'", "empty")),
    "nan": ({"balance": pa.array([1, float("nan"), 0, 0])}, ("row 2", "'balance'", "nan")),
    "infinite": ({"balance": pa.array([0, 0, 0, float("inf")])}, ("row 4", "'balance'")),
    "text": ({"balance": pa.array(["1", "2", "", "x"])}, ("row 4", "'balance'", "'x'")),
    "dates": ({"balance": pa.array([1, 2, 3, 4], pa.date32())}, ("'balance'", "date32")),
    "lists": ({"balance": pa.array([[1], [], [], []])}, ("'balance'", "list")),
    "listed ids": ({"account": pa.array([[1], [], [], []])}, ("'account'", "list")),
    "category": ({"country": pa.array(["DE", "XX", None, None])}, ("row 2", "'country'", "'XX'")),
    "label": ({"risk": pa.array([0.5, None, None, None])}, ("row 1", "'risk'", "'0.5'")),
}


@pytest.mark.parametrize("fault", PARQUET_FAULTS)
def test_a_fault_in_parquet_is_one_line(bank: Path, fedgt: Run, fault: str) -> None:
    changed, parts = PARQUET_FAULTS[fault]
    columns = dict(zip(PARQUET_NODES.column_names, PARQUET_NODES.columns, strict=True)) | changed
    pq.write_table(pa.table(columns), bank / "accounts.parquet")
    refused(fedgt(*import_arguments(nodes="accounts.parquet")), "accounts.parquet", *parts)


def test_damaged_and_odd_parquet_is_refused(bank: Path, fedgt: Run) -> None:
    path = bank / "accounts.parquet"
    arguments = import_arguments(nodes=path.name)
    pq.write_table(PARQUET_NODES, path)
    path.write_bytes(path.read_bytes()[:-9])
    refused(fedgt(*arguments), "accounts.parquet", "damaged")
    pq.write_table(PARQUET_NODES.slice(0, 0), path)
    refused(fedgt(*arguments), "accounts.parquet", "no rows")
    twice = PARQUET_NODES.rename_columns(["account", "balance", "country", "country "])
    pq.write_table(twice, path)
    refused(fedgt(*arguments), "accounts.parquet", "two columns", "'country'")


def test_a_column_has_one_use(bank: Path, fedgt: Run) -> None:
    refused(fedgt(*import_arguments(id="balance")), "'balance'", "id", "feature")
    refused(fedgt(*import_arguments(label="country")), "'country'", "label", "feature")
    refused(fedgt(*import_arguments(label="account")), "'account'", "label", "id")
    refused(fedgt(*import_arguments(split_column="risk")), "'risk'", "split", "label")
    refused(fedgt(*import_arguments(target="from")), "'from'", "source", "target")


def test_an_unknown_split_is_refused(bank: Path, fedgt: Run) -> None:
    (bank / "accounts.csv").write_text(NODES.replace(",val", ",holdout"))
    refused(fedgt(*import_arguments(split_column="part")), *cell(2, "part"), "'holdout'", "train")
    refused(fedgt(*import_arguments(split_column="fold")), "accounts.csv", "'fold'")


def test_a_wrong_schema_is_refused(bank: Path, fedgt: Run) -> None:
    for content, part in (
        ("not json", "not valid JSON"),
        (json.dumps(SCHEMA | {"version": 9}), "version 9"),
        (json.dumps(SCHEMA | {"labels": []}), "labels"),
    ):
        (bank / "schema.json").write_text(content)
        refused(fedgt(*import_arguments()), "schema.json", part)


def test_a_place_that_cannot_be_written_is_refused(bank: Path, fedgt: Run) -> None:
    refused(fedgt(*import_arguments(out="accounts.csv/bank")), "accounts.csv", "not a folder")
    refused(fedgt(*import_arguments(out="accounts.csv")), "exists already")
    refused(fedgt(*import_arguments("--force", out="accounts.csv")), "is not replaced")
    refused(fedgt(*import_arguments("--force", out=".")), "is not replaced")
    refused(fedgt(*schema_arguments(out="accounts.csv/schema.json")), "cannot be written")
    assert (bank / "accounts.csv").read_text() == NODES


def test_an_existing_folder_needs_force_and_survives_a_failure(bank: Path, fedgt: Run) -> None:
    assert fedgt(*import_arguments())[0] == 0
    before = Graph.open(bank / "bank").digest()
    refused(fedgt(*import_arguments(seed="1")), "bank exists already", "--force")
    assert Graph.open(bank / "bank").digest() == before
    (bank / "transfers.csv").write_text(EDGES + "a1,a9\n")
    refused(fedgt(*import_arguments("--force")), "'a9'")
    assert Graph.open(bank / "bank").digest() == before
    (bank / "transfers.csv").write_text(EDGES + "a1,a3\n")
    assert fedgt(*import_arguments("--force"))[0] == 0
    assert Graph.open(bank / "bank").num_edges == 3
    assert {path.name for path in bank.iterdir()} == {
        *("accounts.csv", "transfers.csv", "schema.json", "bank")
    }


def test_import_prints_for_people_and_for_programs(bank: Path, fedgt: Run) -> None:
    code, out, err = fedgt(*import_arguments("--institution", "alba", split_column="part"))
    assert code == 0
    assert "self-loops dropped" in out
    assert err == ""
    code, out, err = fedgt(*import_arguments("--json", "--directed", out="deep/er/bank"))
    assert (code, err) == (0, "")
    summary = json.loads(out)
    assert summary["nodes"] == 4
    assert summary["directed"] is True
    assert summary["ignored_columns"] == ["part"]
    stored = json.loads((bank / "deep/er/bank/summary.json").read_text())
    assert summary == {"folder": "deep/er/bank", **stored}


def schema_arguments(*more: str, **changed: str) -> list[str]:
    options = {"nodes": "accounts.csv", "id": "account", "label": "risk", "out": "new.json"}
    pairs = (options | changed).items()
    return ["schema", *(part for name, value in pairs for part in (f"--{name}", value)), *more]


def test_a_proposed_schema_imports_the_same_file(bank: Path, fedgt: Run) -> None:
    (bank / "accounts.csv").write_text(NODES.replace("part", "branch").replace("train", "test"))
    code, out, err = fedgt(*schema_arguments("--exclude", "branch"))
    assert code == 0
    assert "categorical" in out
    assert "Review" in err
    assert "Discloses" in err
    document = json.loads((bank / "new.json").read_text())
    assert [column["name"] for column in document["columns"]] == ["balance", "country"]
    assert document["labels"] == ["high", "low"]
    assert fedgt(*import_arguments(schema="new.json"))[0] == 0


def test_indicators_stay_logarithms_are_taken_and_what_lies_out_is_clipped(
    bank: Path, fedgt: Run
) -> None:
    columns = [
        {"name": "balance", "type": "numeric", "scale": "log", "log_mean": 3, "log_std": 0.5},
        {"name": "games", "type": "indicator", "mean": 0.25},
        {"name": "age", "type": "numeric", "mean": 40, "std": 10, "clip": 2},
    ]
    schema = SCHEMA | {"version": 2, "columns": columns}
    (bank / "schema.json").write_text(json.dumps(schema))
    rows = ("a1,0,1,40,low", "a2,-7,0,95,high", "a3,,true,,", "a4,1,,10,low")
    (bank / "accounts.csv").write_text("\n".join(("account,balance,games,age,risk", *rows)))
    code, out, err = fedgt(*import_arguments())
    assert code == 0
    assert "numbers clipped" in out
    assert "clipped in: age (2), balance (1)" in err
    expected = [[-6, 1, 0], [-6, 0, 2], [0, 1, 0], [(log(2) - 3) / 0.5, 0.25, -2]]
    assert Graph.open(bank / "bank").dense_features() == pytest.approx(np.array(expected))
    summary = json.loads((bank / "bank" / "summary.json").read_text())
    assert summary["clipped_columns"] == {"age": 2, "balance": 1}
    assert summary["imputed_columns"] == {"balance": 1, "games": 1, "age": 1}
    (bank / "accounts.csv").write_text("account,balance,games,age,risk\na1,0,2,40,low\n")
    refused(fedgt(*import_arguments("--force")), *cell(1, "games"), "'2' is not 0 or 1", "merge")


def test_the_nodes_are_never_overwritten_by_their_schema(bank: Path, fedgt: Run) -> None:
    refused(fedgt(*schema_arguments("--force", out="accounts.csv")), "accounts.csv")
    assert (bank / "accounts.csv").read_text() == NODES


def test_names_in_brackets_are_printed_as_they_are(bank: Path, fedgt: Run) -> None:
    (bank / "accounts.csv").write_text(NODES.replace("balance", "[/b]").replace("part", "[red]"))
    code, out, _ = fedgt(*schema_arguments("--exclude", "[red]", out="[/x].json"))
    assert code == 0
    assert "[/b]" in out
    code, out, err = fedgt(*import_arguments(schema="[/x].json", out="[/out]"))
    assert code == 0
    assert "[/out]" in out
    assert "[red]" in err


def test_schema_tells_what_it_left_out(bank: Path, fedgt: Run) -> None:
    rows = [f"a{i},{i},Person {i},{'low' if i % 2 else 'high'}" for i in range(9)]
    (bank / "accounts.csv").write_text("\n".join(["account,balance,name,risk", *rows]))
    code, out, err = fedgt(*schema_arguments("--json"))
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert set(document["omitted"]) == {"name"}
    assert "Person" not in out
    refused(fedgt(*schema_arguments()), "new.json exists already")
    code, _, err = fedgt(*schema_arguments("--force"))
    assert code == 0
    assert "left out 'name'" in err
    assert "Person" not in (bank / "new.json").read_text()
    refused(fedgt(*schema_arguments("--exclude", "nme", "--force")), "'nme'", "'name'")


@pytest.mark.slow
def test_no_traceback_from_the_installed_command(bank: Path) -> None:
    (bank / "accounts.csv").write_text(NODES + "a1,,,,\n")
    command = [str(Path(sys.executable).with_name("fedgt")), "data", *import_arguments()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    refused((done.returncode, done.stdout, done.stderr), "'a1' in line 2", "line 6 (data row 5)")


def test_an_import_says_whose_data_it_is(bank: Path, fedgt: Run) -> None:
    kit = bank / "kit"
    kit.mkdir()
    (kit / "kit.toml").write_text('institution = "bank-a"\n')
    for folder, more, owner in (
        ("kit/data", (), "bank-a"),
        ("kit/other", ("--institution", "bank-b"), "bank-b"),
        ("elsewhere", (), ""),
    ):
        code, _, err = fedgt(*import_arguments(*more, out=folder))
        assert code == 0
        assert ("--institution NAME" in err) == (not owner)
        noted = json.loads((bank / folder / "summary.json").read_text())
        assert noted["institution"] == owner
        assert noted["graph_digest"] == Graph.open(bank / folder).digest()
