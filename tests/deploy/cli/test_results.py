"""``fedgt results``: one table of several runs, the same in every format."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fedgt_server.events import StartEvent
from fedgt_server.journal import Journal
from shared.config import RunConfig
from tests.fedgt_server.events import institution_round, round_event
from tests.harness.kits import fedgt as run_fedgt

Run = Callable[..., tuple[int, str, str]]
COLUMNS = ["run", "method", "institution", "round", "metric", "value"]


@pytest.fixture
def fedgt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    return lambda *arguments: run_fedgt(capsys, monkeypatch, *arguments)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a comparison of two runs."""
    monkeypatch.chdir(tmp_path)
    for method in ("fedgt", "local"):
        journal = Journal(tmp_path / "both" / method / "journal.jsonl")
        journal.write(StartEvent(config=RunConfig.build({"method": method}).to_flower()))
        for number in (1, 2):
            parts = {'bank "a",\nx': institution_round(val_accuracy=0.25), "b": institution_round()}
            journal.write(round_event(number, parts, test_accuracy=None))
    return Path("both")


def test_a_folder_without_a_run_is_one_line(fedgt: Run, tmp_path: Path) -> None:
    code, out, errors = fedgt("results", str(tmp_path))
    assert (code, out) == (2, "")
    assert "holds no run" in errors
    assert len(errors.splitlines()) == 1


def test_parquet_needs_a_file(fedgt: Run, folder: Path) -> None:
    code, out, errors = fedgt("results", str(folder), "--format", "parquet")
    assert (code, out) == (2, "")
    assert "--out" in errors


def test_all_formats_hold_the_same_numbers(fedgt: Run, folder: Path) -> None:
    lines = list(csv.reader(io.StringIO(fedgt("results", str(folder))[1])))
    objects = json.loads(fedgt("results", str(folder), "--format", "json")[1])
    assert fedgt("results", str(folder), "--format", "parquet", "--out", "t.parquet")[0] == 0
    table = pq.read_table("t.parquet").to_pylist()
    assert lines[0] == list(objects[0]) == list(table[0]) == COLUMNS
    assert table == objects
    assert [[str(v) if v is not None else "" for v in one.values()] for one in objects] == lines[1:]


def test_only_what_was_measured_and_shared(fedgt: Run, folder: Path) -> None:
    rows = json.loads(fedgt("results", str(folder / "fedgt"), "--format", "json")[1])
    assert {row["run"] for row in rows} == {"both/fedgt"}
    assert "test_accuracy" not in {row["metric"] for row in rows}
    shared = {(row["institution"], row["value"]) for row in rows if row["metric"] == "val_accuracy"}
    assert shared == {(None, 0.5), ('bank "a",\nx', 0.25)}
