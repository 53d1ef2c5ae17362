"""The tables of docs/performance.md and docs/scale.md."""

from pathlib import Path

import pytest

from experiments.benchmarks import cli, pages
from experiments.benchmarks.goals import GOALS, Goal
from experiments.benchmarks.pages import PAGES, rewritten
from experiments.benchmarks.report import Row, number
from experiments.benchmarks.results import RESULTS, load
from shared.errors import FedGTError
from tests.experiments.benchmarks.reports import save


def test_a_mark_without_an_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="has no '<!-- end -->'"):
        rewritten("<!-- bench server -->\n", tmp_path)


def test_a_damaged_result_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "server.json").write_text("{}")
    with pytest.raises(FedGTError, match=r"server.json is not a report of 'fedgt bench server"):
        load(tmp_path, "server")


def test_a_result_that_does_not_exist_is_said(tmp_path: Path) -> None:
    page = "before\n<!-- bench server -->\nold\n<!-- end -->\nafter\n"
    assert rewritten(page, tmp_path) == (
        "before\n<!-- bench server -->\n\nNot measured yet.\n\n<!-- end -->\nafter\n"
    )


def test_a_report_becomes_its_tables(tmp_path: Path) -> None:
    save(tmp_path, "wire", "messages", {"method": "FedGT", "up": 1234})
    page = rewritten("<!-- bench wire -->\n<!-- end -->\n", tmp_path)
    assert "`fedgt bench wire`" in page
    assert "| FedGT | 1,234 |" in page
    assert "P, 2 cores" in page


def test_a_goal_that_is_missed_says_so(tmp_path: Path) -> None:
    goal = Goal("t", "wire", "messages", 0.5, lambda rows: number(rows[0], "up"), "×")
    assert goal.row(tmp_path) == ["t", "≤ 0.5×", "–", "–", "`fedgt bench wire`"]
    save(tmp_path, "wire", "messages", {"up": 0.6})
    assert goal.row(tmp_path)[2:4] == ["0.6×", "**no**"]
    reached = Goal("t", "wire", "messages", 0.5, lambda _: 0.6, at_least=True)
    assert reached.row(tmp_path)[1:4] == ["≥ 0.5", "0.6", "yes"]


def test_goals_find_their_numbers(tmp_path: Path) -> None:
    save(
        tmp_path,
        "prepare",
        "peers",
        {"graph": "communities", "quality": 0.99, "good_nodes": 99.5},
        {"graph": "social", "quality": 0.97, "good_nodes": 40.0},
    )
    save(
        tmp_path,
        "prepare",
        "costs",
        _prepared(2000, ppr_ms=9.0, ppr_cpu=18.0, encoding_cpu=1.0),
        _prepared(10_000, ppr_ms=0.2, ppr_cpu=2.0, encoding_cpu=1.0),
        _prepared(169_000, ppr_ms=0.3, ppr_cpu=50.0, encoding_cpu=20.0),
    )
    measured = {goal.title: goal.row(tmp_path)[2] for goal in GOALS if goal.bench == "prepare"}
    assert list(measured.values()) == ["0.97", "99.5 %", "9 ms", "–", "1.5×", "70 CPU s", "845 MB"]


def _prepared(nodes: int, **costs: float) -> Row:
    memory: Row = {"ppr_mb": nodes / 1000, "encoding_mb": nodes / 200}
    return {"graph": "communities", "nodes": nodes, **costs, **memory}


def test_the_pages_show_the_committed_results(capsys: pytest.CaptureFixture[str]) -> None:
    for page in PAGES:
        assert rewritten(page.read_text(), RESULTS) == page.read_text(), "fedgt bench docs"
    cli.app(["docs", "--check"], standalone_mode=False)


def test_check_finds_a_page_that_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- bench wire -->\nold\n<!-- end -->\n")
    monkeypatch.setattr(pages, "PAGES", (page,))
    results = ["--results", str(tmp_path)]
    assert cli.app(["docs", "--check", *results], standalone_mode=False) == 1
    assert "old" in page.read_text()
    cli.app(["docs", *results], standalone_mode=False)
    assert "old" not in page.read_text()
    assert not cli.app(["docs", "--check", *results], standalone_mode=False)
