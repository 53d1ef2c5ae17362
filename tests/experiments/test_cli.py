"""``fedgt experiment``, as a person meets it."""

import json
import sys
from pathlib import Path

import pytest

from deploy.cli import main
from deploy.cli.output import console
from experiments import grids
from experiments.cli import in_parts, select
from experiments.grids import Experiment, experiment
from experiments.job import Job
from experiments.protocol import table_seeds
from experiments.result_table import Column, Entry, Row, Table
from experiments.variants import METHODS
from shared.errors import FedGTError
from tests.experiments.jobs import statistics_of, write_made

pytestmark = pytest.mark.slow


def fedgt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["fedgt", "experiment", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Make an experiment of two jobs of which one cannot be done."""
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    jobs = (statistics_of(), Job("consortium", "overlap", 7, kind="statistics"))
    item = Experiment("tiny", "Two jobs", jobs)
    monkeypatch.setattr(grids, "EXPERIMENTS", {"tiny": item})
    return "tiny"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "mian"), "there is no experiment 'mian'; there are: main-disjoint"),
        (
            ("run", "cost", "--only", "cora"),
            "--only cora: expected KEY=VALUE with a key of dataset",
        ),
        (("run", "cost", "--only", "method=x"), "--only method=x: expected KEY=VALUE"),
        (("run", "cost", "--only", "seed=7"), "no run has seed 7; there are: 31, 32, 33"),
        (
            ("run", "cost", "--only", "seed=31, seed=32"),
            "--only seed=32: seed is given twice; write seed=A+B",
        ),
        (
            ("run", "main-disjoint", "--only", "dataset=pubmed,seed=35"),
            "--only dataset=pubmed,seed=35: no run matches",
        ),
        (("run", "cost", "--jobs", "0"), "0"),
        (("run", "statistics", "--data-dir", "/nowhere"), "data folder /nowhere does not exist"),
        (("trials", "coral"), "family is 'coral', expected one of cora"),
        (("table", "cost/paired"), "cost is not a table of accuracies: it has no 'paired'"),
        (("table", "louvain/pared"), "form is 'pared', expected one of finished, paired, way"),
        (("table", "mian"), "there is no experiment 'mian'"),
        (("table", "tsne"), "tsne has no table, only a figure: fedgt experiment figure tsne"),
        (("table", "cost", "--format", "html"), "html"),
        (("figure", "statistics"), "statistics has no figure, only a table"),
        (("figure", "cost", "--out", "cost.gif"), "cost.gif is not a figure"),
        (("readme", "--file", "/nowhere/README.md"), "/nowhere/README.md: No such file"),
        (("readme", "--file", sys.executable), "is not UTF-8 text"),
        (("readme", "--results", "/nowhere"), "results folder /nowhere does not exist"),
        (("list", "--results", "/nowhere"), "results folder /nowhere does not exist"),
        (("table", "cost", "--results", "/nowhere"), "results folder /nowhere does not exist"),
        (("figure", "cost", "--results", "/nowhere"), "results folder /nowhere does not exist"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    code, out, errors = fedgt(capsys, monkeypatch, *arguments)
    assert (code, out) == (2, "")
    assert message in errors
    assert len(errors.strip().splitlines()) == 1


def test_select_by_several_values() -> None:
    jobs = list(experiment("main-disjoint").jobs)
    found = select(jobs, "dataset=cora, variant=fedgt+local,seed=31")
    assert {job.name for job in found} == {
        f"cora/disjoint-{count}/{name}-31" for count in (5, 10, 20) for name in ("fedgt", "local")
    }
    assert select(jobs, "") == jobs
    with pytest.raises(FedGTError, match="no run has variant fedgtt"):
        select(jobs, "variant=fedgtt")


def test_what_is_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_made(tmp_path, Job.of("cora", "disjoint", 5, "gcn", 32), 0.8)
    arguments = ("run", "cost", "--only", "variant=gcn", "--list", "--results", str(tmp_path))
    assert fedgt(capsys, monkeypatch, *arguments) == (
        0,
        "".join(f"cora/disjoint-5/gcn-{seed}\n" for seed in (31, 33, 34, 35)),
        "",
    )


def test_list_counts_what_is_finished(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_made(tmp_path, Job.of("cora", "disjoint", 5, "gcn", 32), 0.8)
    code, out, _ = fedgt(capsys, monkeypatch, "list", "--results", str(tmp_path), "--json")
    counts = {item["name"]: item for item in json.loads(out)["experiments"]}
    assert code == 0
    jobs = len(METHODS) * len(table_seeds("cora"))
    assert (counts["cost"]["finished"], counts["cost"]["jobs"]) == (1, jobs)
    assert counts["main-disjoint"]["finished"] == 1
    assert counts["main-overlap"]["finished"] == 0
    code, out, _ = fedgt(capsys, monkeypatch, "list", "--results", str(tmp_path))
    assert f"1/{jobs}" in out


@pytest.mark.slow
def test_a_failure_is_told_and_decides_the_exit_code(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny: str
) -> None:
    results = ("--results", str(tmp_path / "results"), "--jobs", "1")
    code, out, errors = fedgt(capsys, monkeypatch, "run", tiny, *results)
    assert (code, out) == (1, "")
    assert "2 of 2 runs to do" in errors
    assert "consortium/overlap-7/statistics-0 failed: clients is 7" in errors
    assert "consortium/disjoint-3/statistics-0:" in errors
    assert "1 of 2 runs failed" in errors
    # What is finished is not done again.
    code, _, errors = fedgt(capsys, monkeypatch, "run", tiny, *results)
    assert code == 1
    assert "1 of 2 runs to do" in errors


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("terminal", "80.00 (87.29)"),
        ("markdown", "| FedGT | 80.00 (87.29) |"),
        ("csv", 'FedGT,"Cora, 10",80.0,,1,87.29,0.25'),
    ],
)
def test_table_in_three_forms(
    form: str,
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    write_made(tmp_path, Job.of("cora", "louvain", 10, "fedgt", 31), 0.8)
    arguments = ("table", "louvain", "--format", form, "--results", str(tmp_path))
    code, out, _ = fedgt(capsys, monkeypatch, *arguments)
    assert code == 0
    assert expected in out


def test_a_wide_table_is_shown_in_parts() -> None:
    entries = tuple(Entry(float(index), None, 1) for index in range(5))
    columns = tuple(Column(str(index)) for index in range(5))
    whole = Table("t", "method", columns, (Row("FedGT", entries),))
    assert in_parts(whole, 500) == [whole]
    narrow = in_parts(whole, 60)
    assert [len(part.columns) for part in narrow] == [2, 2, 1]
    assert [entry for part in narrow for entry in part.rows[0].entries] == list(entries)
    assert [len(part.columns) for part in in_parts(whole, 10)] == [1] * 5


def test_a_label_is_not_cut_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(console, "_width", 60)
    _, out, _ = fedgt(capsys, monkeypatch, "table", "statistics", "--results", str(tmp_path))
    assert "amazon-computers/disjoint-10 " in out
    assert "amazon-computers/disjoint-20 " in out


def test_a_readme_whose_picture_cannot_be_drawn_stays_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "README.md"
    text = "<!-- table louvain -->\n<!-- end -->\n![](experiments/pictures/heatmap.png)\n"
    file.write_text(text)
    arguments = ("readme", "--file", str(file), "--results", str(tmp_path))
    code, _, errors = fedgt(capsys, monkeypatch, *arguments)
    assert (code, file.read_text()) == (2, text)
    assert "nothing of heatmap has been run" in errors


def test_a_figure_says_where_it_is_and_what_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_made(tmp_path, Job.of("cora", "louvain", 10, "fedgt", 31), 0.8)
    out = tmp_path / "a.png"
    arguments = ("figure", "louvain", "--out", str(out), "--results", str(tmp_path))
    code, text, errors = fedgt(capsys, monkeypatch, *arguments)
    assert (code, text) == (0, f"figure: {out}\n")
    assert errors == "155 of 156 runs are missing, first cora/louvain-10/local-31\n"
    assert out.exists()


def test_readme_is_checked_and_rewritten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_made(tmp_path, Job.of("cora", "louvain", 10, "fedgt", 31), 0.8)
    file = tmp_path / "README.md"
    file.write_text("<!-- table louvain -->\n<!-- end -->\n")
    arguments = ("readme", "--file", str(file), "--results", str(tmp_path))
    code, _, errors = fedgt(capsys, monkeypatch, *arguments, "--check")
    assert code == 1
    assert "README.md differs from the records: fedgt experiment readme" in errors
    assert "80.00" not in file.read_text()
    assert fedgt(capsys, monkeypatch, *arguments) == (0, "", "")
    assert "80.00 (87.29)" in file.read_text()
    assert fedgt(capsys, monkeypatch, *arguments, "--check") == (0, "", "")
