"""Memory and repeats of measurements, reports and measuring processes."""

import os
from pathlib import Path

import numpy as np
import pytest

from experiments.benchmarks.measure import machine, measured
from experiments.benchmarks.process import OwnProcess
from experiments.benchmarks.report import Row, Table, as_text, markdown, number, ratio
from shared.errors import FedGTError


def fail() -> Row:
    raise ValueError("broken")


def facts(text: str, number: int = 0) -> Row:
    print("libraries may print")
    return {
        "text": text,
        "number": number,
        "threads": os.environ.get("OMP_NUM_THREADS"),
        "cache": os.environ.get("FEDGT_CACHE"),
    }


def test_a_process_that_fails_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(FedGTError, match=r"measuring test_measure:fail \[\{\}\] ended with .* 1"):
        OwnProcess().run(fail)
    assert "broken" in capfd.readouterr().err


def test_a_process_gets_arguments_one_thread_and_a_cache(tmp_path: Path) -> None:
    found = OwnProcess(cache=tmp_path).run(facts, "a", number=3)
    assert found == {"text": "a", "number": 3, "threads": "1", "cache": str(tmp_path)}


def test_growth_counts_what_the_work_holds_at_most() -> None:
    size = 200_000_000

    def work() -> int:
        np.ones(size, np.uint8)  # and drop it
        return 7

    result, cost = measured(work)
    assert result == 7
    assert 0.9 * size < cost.growth < 1.5 * size
    assert cost.peak > cost.growth


def test_growth_does_not_count_an_earlier_peak() -> None:
    np.ones(200_000_000, np.uint8)
    _, cost = measured(lambda: None)
    assert cost.growth < 50_000_000


def test_short_work_is_repeated() -> None:
    calls: list[int] = []
    measured(lambda: calls.append(1), repeats=3)
    assert len(calls) == 3


def test_the_machine_is_described() -> None:
    found = machine()
    assert found["cores"] == os.cpu_count()
    assert {"processor", "memory_gib", "load", "torch", "version", "commit"} <= found.keys()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        ("FedGT", "FedGT"),
        (1234567, "1,234,567"),
        (1234.5, "1,234"),
        (0.98765, "0.988"),
        (12.345, "12.3"),
    ],
)
def test_cells(value: str | float | None, text: str) -> None:
    assert as_text(value) == text


def test_a_ratio_needs_both_numbers() -> None:
    assert ratio(3.0, 2.0) == 1.5
    assert ratio(None, 2.0) is None
    assert ratio(3.0, None) is None
    assert ratio(3.0, 0.0) is None


def test_a_number_that_is_missing_is_an_error() -> None:
    assert number({"a": 2}, "a") == 2.0
    with pytest.raises(FedGTError, match="no number 'b'"):
        number({"a": 2}, "b")


def test_a_wide_table_is_split_and_loses_no_column() -> None:
    headings = {"name": "name", **{f"c{place}": f"column {place}" for place in range(9)}}
    table = Table.of("t", "Title", headings, [{"name": "a", "c3": 3.0, "other": 1}])
    assert table.rows[0].keys() == headings.keys()
    parts = table.parts(40)
    assert len(parts) > 1
    assert all(part.columns[0].key == "name" for part in parts)
    assert [column.key for part in parts for column in part.columns[1:]] == list(headings)[1:]
    assert len(table.parts(200)) == 1


def test_markdown() -> None:
    assert markdown(["a", "b"], [["1", "2"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n"
