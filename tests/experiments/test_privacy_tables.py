"""The tables of docs/privacy.md are those of the records."""

import json
from pathlib import Path

import pytest

from experiments.privacy_tables import PAGE, RECORDS, accuracy_table, read_runs, rewritten
from fedgt_server.result import Result
from shared.errors import FedGTError
from tests.harness.kits import fedgt


def test_a_table_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="there is no table 'budget' of privacy"):
        rewritten("<!-- privacy budget -->\n<!-- end -->", tmp_path)


def test_the_page_shows_the_records(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fedgt(capsys, monkeypatch, "experiment", "privacy", "--check")[0] == 0
    assert PAGE.read_text().count("<!-- privacy ") == 2


def test_another_record_is_another_table() -> None:
    runs = read_runs(RECORDS / "runs")
    changed = [_with_accuracy(runs[0], 0.123), *runs[1:]]
    assert accuracy_table(changed) != accuracy_table(runs)


def test_seeds_are_averaged(tmp_path: Path) -> None:
    run = read_runs(RECORDS / "runs")[0]
    (tmp_path / "a.json").write_text(_with_accuracy(run, 0.8).model_dump_json())
    (tmp_path / "b.json").write_text(_with_accuracy(run, 0.9).model_dump_json())
    line = accuracy_table(read_runs(tmp_path)).splitlines()[-1]
    assert line.endswith("| 2 | 85.0 ± 7.1 |")


def _with_accuracy(run: Result, accuracy: float) -> Result:
    return Result.model_validate(json.loads(run.model_dump_json()) | {"test_accuracy": accuracy})
