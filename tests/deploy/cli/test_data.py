"""``fedgt data list`` and ``fedgt data stats``, as a person meets them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.cli import main
from fedgt_client.data.catalog import dataset_names


def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["fedgt", "data", *arguments])
    with pytest.raises(SystemExit) as end:
        main()
    captured = capsys.readouterr()
    code = end.value.code
    return code if isinstance(code, int) else 0, captured.out, captured.err


@pytest.mark.usefixtures("no_data")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("stats", "core"), "dataset is 'core'"),
        (("stats", "consortium", "--setting", "metis"), "setting is 'metis'"),
        (("stats", "consortium", "--clients", "0"), "clients is 0"),
        (("stats", "consortium", "--clients", "-4"), "clients is -4"),
        (("stats", "consortium", "--clients", "7", "--setting", "overlap"), "a multiple of 5"),
        (("stats", "consortium", "--clients", "9999", "--setting", "louvain"), "has only"),
        (("stats", "consortium", "--seed", "-1"), "seed is -1"),
        (("stats", "consortium", "--data-dir", "/nowhere"), "/nowhere does not exist"),
        (("list", "--data-dir", "/nowhere"), "/nowhere does not exist"),
        (("stats", "cora"), "ind.cora.test.index into"),
        (("stats", "ogbn-arxiv"), "node-feat.csv.gz"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    code, out, err = run(capsys, monkeypatch, *arguments, "--json")
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.usefixtures("no_data")
def test_words_for_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(capsys, monkeypatch, "stats", "consortium", "--clients", "many")[0] == 2
    assert run(capsys, monkeypatch, "stats")[0] == 2


@pytest.mark.usefixtures("no_data")
def test_list(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = run(capsys, monkeypatch, "list", "--json")
    listed = json.loads(out)["datasets"]
    assert code == 0
    assert tuple(entry["name"] for entry in listed) == dataset_names()
    assert [entry["name"] for entry in listed if entry["generated"]] == ["consortium"]
    assert [entry["name"] for entry in listed if entry["found"]] == ["consortium"]
    assert listed[1] == {
        "name": "cora",
        "nodes": 2708,
        "edges": 5278,
        "classes": 7,
        "features": 1433,
        "generated": False,
        "found": False,
        "folder": None,
    }


@pytest.mark.usefixtures("no_data")
def test_list_for_people(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, out, _ = run(capsys, monkeypatch, "list")
    assert all(name in out for name in dataset_names())
    assert "generated" in out


def test_list_finds_real_files(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, datasets: Path
) -> None:
    _, out, _ = run(capsys, monkeypatch, "list", "--data-dir", str(datasets), "--json")
    found = {entry["name"]: entry["folder"] for entry in json.loads(out)["datasets"]}
    assert found["cora"] == str(datasets / "planetoid" / "Cora")
    assert found["amazon-photo"] == str(datasets / "amazon" / "Photo")
    _, out, _ = run(capsys, monkeypatch, "list", "--data-dir", str(datasets))
    assert f"cora: {datasets / 'planetoid' / 'Cora'}\n" in out


@pytest.mark.slow
def test_list_does_not_wait_for_torch() -> None:
    script = (
        "import sys; from deploy.cli import main; sys.argv = ['fedgt', 'data', 'list']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


@pytest.mark.usefixtures("no_data")
def test_stats(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("stats", "consortium", "--clients", "6", "--seed", "3")
    code, out, err = run(capsys, monkeypatch, *arguments, "--json")
    document: dict[str, Any] = json.loads(out)
    assert (code, err) == (0, "")
    assert len(document["clients"]) == 6
    assert sum(client["nodes"] for client in document["clients"]) == document["nodes"]
    held = sum(client["edges"] for client in document["clients"])
    assert held + document["missing_links"] == document["edges"]
    assert 0 < document["heterogeneity"] < 1
    assert document["paper"] == {"missing_links": None, "heterogeneity": None}
    code, out, _ = run(capsys, monkeypatch, *arguments)
    assert code == 0
    assert f"{document['missing_links']:,}" in out
    assert "–" in out


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
def test_stats_beside_the_paper(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("stats", "cora", "--clients", "10")
    _, out, _ = run(capsys, monkeypatch, *arguments, "--json")
    document = json.loads(out)
    assert document["paper"] == {"missing_links": 615, "heterogeneity": 0.638}
    assert document["nodes"] == 2485
    _, out, _ = run(capsys, monkeypatch, *arguments, "--whole-graph", "--json")
    assert json.loads(out)["nodes"] == 2708
    _, out, _ = run(capsys, monkeypatch, *arguments)
    assert "615" in out
    assert "0.638" in out
