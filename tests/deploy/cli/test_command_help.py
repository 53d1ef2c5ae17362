"""The list of commands fits a screen; every command has a group and an example that works."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pytest

from deploy.cli import main
from deploy.cli.command_help import EXAMPLES, GROUPS
from deploy.cli.commands import command_group
from tests.deploy.cli.test_commands import all_commands
from tests.harness.kits import fedgt, write_banks

_ROOT = Path(__file__).parents[3]
_SCREEN = 24  # lines

# In the order in which a reader could type them: what one writes, later ones read.
_RUN_HERE = (
    "data list",
    "data stats",
    "data schema propose",
    "data schema merge",
    "data import",
    "run",
    "report",
    "results",
    "track",
    "config",
    "predict",
    "evaluate",
    "export",
    "explain",
    "provision make",
    "provision key",
    "provision app",
    "provision approve",
    "policy show",
    "policy check",
    "doctor",
    "backup",
    "restore",
    "clean",
    "runs",
    "provision revoke",
    "experiment list",
    "experiment run",
    "experiment trials",
    "experiment table",
)
# Commands that wait for others, take long or need a federation: their examples are parsed here, and
# the tests in these files run the commands.
_RUN_ELSEWHERE = {
    "demo": "deploy/cli/test_run.py",
    "watch": "deploy/page/test_live.py",
    "audit": "deploy/audit/test_audit.py",
    "launch": "deploy/faults/test_operators_day.py",
    "resume": "deploy/faults/test_operators_day.py",
    "follow": "deploy/faults/test_operators_day.py",
    "stop": "deploy/faults/test_operators_day.py",
    "status": "deploy/faults/test_operators_day.py",
    "outbound": "deploy/faults/test_refused.py",
    "rejoin": "deploy/faults/test_name_data_and_state.py",
    "provision register": "deploy/test_kits_over_tls.py",
    "experiment figure": "experiments/test_figures.py",
    "experiment readme": "experiments/test_readme.py",
    "experiment privacy": "experiments/test_privacy_tables.py",
    "bench attacks": "experiments/benchmarks/test_attacks.py",
    "bench docs": "experiments/benchmarks/test_pages.py",
    **{
        f"bench {name}": "experiments/benchmarks/test_benches.py"
        for name in ("prepare", "epoch", "scale", "wire", "server", "round", "social", "import")
    },
}


def test_every_example_is_of_a_command_and_tested() -> None:
    assert set(EXAMPLES) == set(all_commands())
    for name in EXAMPLES:
        known = name in _RUN_HERE or name in _RUN_ELSEWHERE
        assert known, f"add '{name}' to _RUN_HERE of {Path(__file__).name}, or say what tests it"
    assert all((_ROOT / "tests" / file).is_file() for file in _RUN_ELSEWHERE.values())


def test_the_list_fits_a_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, _ = fedgt(capsys, monkeypatch, "--help")
    lines = out.splitlines()
    assert code == 0
    assert len(lines) <= _SCREEN
    assert all(len(line) <= 80 for line in lines)
    assert [group for group in GROUPS if any(line.startswith(group) for line in lines)] == [*GROUPS]
    assert "..." not in "".join(lines[2:])


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_ends_with_the_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = all_commands()[name]
    command.main(["--help"], prog_name=f"fedgt {name}", standalone_mode=False)
    _, _, end = capsys.readouterr().out.rpartition("Example:")
    shown = end.replace("\\\n", " ").split()
    assert shown == EXAMPLES[name].split()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_can_be_parsed(name: str) -> None:
    words = _arguments(EXAMPLES[name])
    group = command_group()
    with group.make_context("fedgt", words) as context:
        while isinstance(context.command, click.Group):
            found, command, rest = context.command.resolve_command(
                context, [*context._protected_args, *context.args]
            )
            assert command is not None
            context = command.make_context(found or "", rest, parent=context)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the folder of a reader who has tables of two banks and a federation's file."""
    place = tmp_path_factory.mktemp("reader")
    for seed, bank in enumerate("ab"):
        rng = np.random.default_rng(seed)
        ids = [f"{bank}{k}" for k in range(60)]
        risks = rng.choice(["high", "low"], len(ids))
        balance = np.where(risks == "high", 3.0, 1.0) * rng.lognormal(3, 0.3, len(ids))
        rows = [f"{i},{b:.2f},{r}" for i, b, r in zip(ids, balance, risks, strict=True)]
        (place / f"{bank}.csv").write_text("account,balance,risk\n" + "\n".join(rows) + "\n")
        ends = rng.choice(ids, (150, 2)).tolist()
        links = "\n".join(f"{a},{b}" for a, b in ends if a != b)
        (place / f"{bank}-links.csv").write_text(f"from,to\n{links}\n")
    write_banks(place)
    yield place
    shutil.rmtree(place)


def _prepare(name: str) -> None:
    """Do at the second bank what the examples do at the first."""
    if name == "data schema merge":
        _call(EXAMPLES["data schema propose"].replace("a.", "b."))
    if name == "run":
        second = EXAMPLES["data import"].replace("a.csv", "b.csv").replace("a-links", "b-links")
        _call(second.replace("bank-a", "bank-b"))
        _call("fedgt run --data bank-a bank-b --rounds 2 --set hidden=16 --out runs/banks")
    if name == "doctor":
        shutil.copytree("bank-a", "kits/bank-a/data", dirs_exist_ok=True)


def _arguments(command: str) -> list[str]:
    """Return what the program is given: without a pipe before it, or a file after it."""
    words = shlex.split(command)
    end = words.index(">") if ">" in words else len(words)
    return words[words.index("fedgt") + 1 : end]


def _call(command: str) -> None:
    argv, sys.argv = sys.argv, ["fedgt", *_arguments(command)]
    with pytest.raises(SystemExit) as end:
        main()
    sys.argv = argv
    assert not end.value.code, command


@pytest.mark.slow
def test_examples_work(reader: Path, monkeypatch: pytest.MonkeyPatch, graph_cache: Path) -> None:
    monkeypatch.chdir(reader)
    monkeypatch.setenv("FEDGT_CACHE", str(graph_cache))
    for name in _RUN_HERE:
        _prepare(name)
        _call(EXAMPLES[name])
    assert {"report.html", "comparison.json"} <= {
        path.name for path in Path("runs/first").iterdir()
    }


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("fedgt ev", "evaluate"), ("fedgt run --rou", "--rounds"), ("fedgt data im", "import")],
)
def test_shells_complete_commands_and_options(typed: str, offered: str) -> None:
    words = {"COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    answer = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'fedgt'\nfrom deploy.cli import main; main()",
        ],
        env=os.environ | words | {"_FEDGT_COMPLETE": "bash_complete"},
        cwd=_ROOT,
        capture_output=True,
        text=True,
    )
    assert f"plain,{offered}" in answer.stdout.splitlines(), answer.stderr
