"""``fedgt run`` and ``fedgt demo``, as a person meets them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.cli import demo, main

pytestmark = pytest.mark.usefixtures("own_cache")

_QUICK = ("--rounds", "2", "--clients", "3", "--set", "hidden=16", "--set", "samples=4")


def fedgt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["fedgt", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    captured = capsys.readouterr()
    return int(end.value.code or 0), captured.out, captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "tua=1"), "there is no setting 'tua'"),
        (("--set", "tau"), "--set tau: expected KEY=VALUE"),
        (("--set", "tau=much"), "tau is 'much'"),
        (("--set", "heads=3"), "heads is 3, which does not divide hidden 64"),
        (("--method", "fedfoo"), "method is 'fedfoo'"),
        (("--setting", "metis"), "setting is 'metis'"),
        (("--preset", "papre"), "preset is 'papre', expected one of"),
        (("--rounds", "0"), "rounds is 0"),
        (("--rounds", "few"), "few"),
        (("--seed", "-1"), "seed is -1"),
        (("--clients", "0"), "0"),
        (("--engine", "ray"), "ray"),
        (("--clients", "7", "--setting", "overlap"), "a multiple of 5"),
        (("--dataset", "core"), "dataset is 'core'"),
        (("--dataset", "cora", "--data-dir", "/nowhere"), "/nowhere does not exist"),
    ],
)
@pytest.mark.parametrize("engine", ["inprocess", "flower"])
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    engine: str,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    out = tmp_path / "out"
    code, text, errors = fedgt(
        capsys, monkeypatch, "run", "--engine", engine, "--out", str(out), *arguments
    )
    assert (code, text) == (2, "")
    assert message in errors
    assert len(errors.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize("name", ["two words", "..", "a:b"])
def test_a_folder_that_cannot_name_a_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    code, _, errors = fedgt(capsys, monkeypatch, "run", "--out", str(tmp_path / "new" / name))
    assert code == 2
    assert "use letters, digits" in errors
    assert len(errors.splitlines()) == 1


def test_a_folder_in_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("precious")
    code, _, errors = fedgt(capsys, monkeypatch, "run", "--out", str(tmp_path / "out"))
    assert code == 2
    assert "holds another run: choose another --out, or add --resume" in errors
    assert len(errors.splitlines()) == 1
    (tmp_path / "file").write_text("precious")
    code, _, errors = fedgt(capsys, monkeypatch, "run", "--out", str(tmp_path / "file"))
    assert code == 2
    assert len(errors.splitlines()) == 1
    assert (tmp_path / "file").read_text() == "precious"


def test_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, text, errors = fedgt(capsys, monkeypatch, "run", *_QUICK, "--out", str(out), "--json")
    result = json.loads(text)
    assert (code, errors) == (0, "")
    expected = {"test_accuracy", "val_accuracy", "best_round", "per_client", "seconds"}
    assert expected | {"bytes_up", "bytes_down"} <= result.keys()
    assert result["out"] == str(out)
    assert result["config"]["hidden"] == 16


def test_for_people(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    code, text, errors = fedgt(capsys, monkeypatch, "run", *_QUICK)
    assert code == 0
    assert "institution-02" in text
    assert "results: runs/consortium-disjoint-3-fedgt-seed0" in text
    assert "fedgt: round 2/2, validation" in errors


@pytest.mark.slow
def test_a_warning_of_the_result_is_said_once(tmp_path: Path) -> None:
    # In a process of its own: pytest's logging would keep the command's from being set up.
    program = [sys.executable, "-c", "from deploy.cli import main; main()", "run", *_QUICK]
    run = [*program, "--set", "own-model=true", "--out", str(tmp_path / "out"), "--quiet"]
    for again in ([], ["--resume"]):  # a finished run tells it from its result
        said = subprocess.run([*run, *again], capture_output=True, text=True, check=True).stderr
        lines = [line for line in said.splitlines() if "largest class" in line or "alone" in line]
        assert len(lines) == len(set(lines)) >= 1, said


@pytest.mark.slow
def test_demo_replaces_the_demo_before_and_nothing_else(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Run where Ray is not installed; Flower's simulation has tests of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "is_simulation_installed", lambda: False)
    kept = tmp_path / "runs" / "demo" / "notes.txt"
    for _ in range(2):
        code, text, errors = fedgt(capsys, monkeypatch, "demo", "--rounds", "1", "--json")
        summary = json.loads(text)
        assert (code, errors) == (0, "")
        assert len(summary["institutions"]) == 6
        assert set(summary["institutions"]["institution-00"]) == {"local", "fedgt"}
        assert summary["test_accuracy"].keys() == {"local", "fedgt"}
        assert "institution-05" in Path(summary["page"]).read_text()
        if kept.exists():
            assert kept.read_text() == "mine"
        kept.write_text("mine")
    _, text, errors = fedgt(capsys, monkeypatch, "demo", "--rounds", "1")
    assert "pip install 'fedgt[simulation]'" in errors
    assert "mean" in text
    assert "results: runs/demo" in text
    assert text.endswith("page: runs/demo/report.html\n")
