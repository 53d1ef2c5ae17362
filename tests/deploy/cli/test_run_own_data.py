"""``fedgt run --data``: own graphs trained together, as a person meets it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedgt_client.graph import Graph
from fedgt_client.state import StateStore
from tests.fedgt_client.graphs import two_groups, with_weights
from tests.harness.kits import fedgt

pytestmark = pytest.mark.usefixtures("own_cache")

Run = Callable[..., tuple[int, str, str]]
# Noise from the operating system would make every run different.
_SEEDED = ("--set", "ldp-noise-seed=0")
_QUICK = ("--rounds", "2", "--set", "hidden=16", "--set", "samples=4", *_SEEDED)
BANKS = ("bank-a/", "bank-b/", "bank-c")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run in a folder with three banks' graphs and a folder that is none."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(BANKS):
        two_groups(seed=seed).save(Path(name))
    replace(two_groups(), class_names=("even", "uneven")).save(Path("other"))
    Path("empty").mkdir()
    return lambda *arguments: fedgt(capsys, monkeypatch, "run", *arguments)


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("--data", "bank-a", "empty"), ("empty holds no graph",)),
        (("--data", "bank-a", "nowhere"), ("nowhere holds no graph",)),
        (("--data", "bank-a", "other"), ("class 2", "'odd' in", "bank-a", "'uneven' in", "other")),
        (("--data", "bank-a", "./bank-a/"), ("two folders are named 'bank-a'",)),
        (("bank-a", "bank-b"), ("'bank-a'", "--data")),
        (("--data", "bank-a", "--dataset", "cora"), ("--dataset", "not both")),
        (("--data", "bank-a", "--clients", "3"), ("--clients", "not both")),
        (("--data", "bank-a", "bank-b", "--compare", "gcm"), ("method is 'gcm'",)),
        (("--data", "bank-a", "bank-b", "--compare", "gcn,"), ("--compare", "commas")),
        (("--data",), ("--data",)),
        (("--data", "bank-a", "bank-b", "--resume"), ("no run to resume",)),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    run: Run, arguments: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    before = sorted(Path().rglob("*"))
    code, text, errors = run(*arguments)
    assert (code, text) == (2, "")
    assert len(errors.splitlines()) == 1
    for part in parts:
        assert part in errors
    assert sorted(Path().rglob("*")) == before


def test_own_graphs_are_trained_and_their_models_kept(run: Run) -> None:
    code, text, _ = run("--data", *BANKS, *_QUICK)
    assert code == 0
    for part in ("bank-a", "bank-b", "bank-c", "mean", "results: runs/own-3-fedgt-seed0"):
        assert part in text
    out = Path("runs/own-3-fedgt-seed0")
    institutions = json.loads((out / "institutions.json").read_text())
    assert institutions["bank-b"] == str(Path("bank-b").resolve())
    assert json.loads((out / "result.json").read_text())["config"]["dataset"] == "own"
    for name in institutions:
        assert StateStore(out / "institutions", "default", out.name, name).load_best()


def test_the_order_of_folders_and_the_form_of_the_option_do_not_matter(run: Run) -> None:
    results = []
    for number, form in enumerate(
        (("--data", *BANKS), ("--data", "bank-c", "--data", "bank-b", "bank-a"))
    ):
        code, text, _ = run(*form, *_QUICK, "--out", f"out{number}", "--json")
        assert code == 0
        results.append(json.loads(text)["per_client"])
    assert results[0] == results[1]


def test_methods_are_compared_for_each_institution(run: Run) -> None:
    arguments = ("--data", *BANKS, *_QUICK, "--compare", "local,gcn,local", "--out", "out")
    code, text, _ = run(*arguments)
    assert code == 0
    heading, *rows = text.splitlines()[1:]
    assert heading.split() == ["institution", "fedgt", "local", "gcn", "largest", "class"]
    assert [row.split()[0] for row in rows[:4]] == ["bank-a", "bank-b", "bank-c", "mean"]
    compared = json.loads(Path("out/comparison.json").read_text())
    assert compared["gcn"]["per_client"].keys() == {"bank-a", "bank-b", "bank-c"}
    assert compared["gcn"] == json.loads(Path("out/gcn/result.json").read_text())
    shown = f"{100 * compared['gcn']['per_client']['bank-b']['test_accuracy']:.2f}"
    assert rows[1].split()[3] == shown
    of_class = compared["fedgt"]["per_client"]["bank-b"]["test_majority_share"]
    assert rows[1].split()[4] == f"{100 * of_class:.2f}"
    recall = f"{100 * compared['gcn']['per_client']['bank-b']['test_balanced_accuracy']:.2f}"
    assert recall in text.partition("Mean recall")[2]
    assert StateStore(Path("out/gcn/institutions"), "default", "gcn", "bank-b").load_best()
    code, _, errors = run(*arguments)
    assert code == 2
    assert "holds another run" in errors


def test_a_comparison_that_was_interrupted_goes_on(run: Run) -> None:
    arguments = ("--data", *BANKS, *_QUICK, "--out", "out", "--json")
    whole = json.loads(run(*arguments, "--compare", "gcn,local")[1])["methods"]
    for file in ("gcn/result.json", "comparison.json"):
        (Path("out") / file).unlink()
    code, text, _ = run(*arguments, "--compare", "gcn,local", "--resume")
    assert code == 0
    again = json.loads(text)["methods"]
    assert again["fedgt"] == whole["fedgt"]
    assert again["gcn"]["per_client"] == whole["gcn"]["per_client"]
    code, _, errors = run("--data", "bank-a", *_QUICK, "--out", "out", "--resume")
    assert code == 2
    assert "a run of other institutions" in errors


def test_weighted_and_plain_graphs_train_together(run: Run) -> None:
    with_weights(Graph.open(Path("bank-a"))).save(Path("bank-a"), force=True)
    arguments = ("--data", *BANKS, *_QUICK, "--method", "gcn", "--compare", "fedpub", "--json")
    code, text, _ = run(*arguments)
    assert code == 0
    assert json.loads(text)["methods"]["fedpub"]["test_accuracy"] is not None


@pytest.mark.slow
def test_flowers_simulation_gives_what_one_process_gives(run: Run) -> None:
    pytest.importorskip("ray")
    results = []
    for engine in ("inprocess", "flower"):
        arguments = ("--data", *BANKS, *_QUICK, "--set", "ldp=off", "--json")
        code, text, errors = run(*arguments, "--engine", engine, "--out", engine)
        assert code == 0, errors
        results.append(json.loads(text)["per_client"])
    assert results[0] == results[1]
    assert results[0].keys() == {"bank-a", "bank-b", "bank-c"}
    assert list(Path("flower/institutions").rglob("bank-b/best-*.safetensors"))


def test_a_rehearsal_says_what_institutions_would_refuse(run: Run) -> None:
    code, _, errors = run("--data", *BANKS, *_QUICK, "--quiet")
    assert code == 0
    line = "by default an institution refuses fedgt so: ldp-noise-seed = 0, allowed: -1, nobody's"
    assert line in errors
