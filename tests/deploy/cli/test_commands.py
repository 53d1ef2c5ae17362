"""Commands are loaded when they are called, and other packages can add some."""

import inspect
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest

from deploy.cli import commands
from deploy.cli.commands import LazyCommand, command_group
from tests.harness.kits import fedgt

_ROOT = Path(__file__).parents[3]
# What the coordinator's image does not have.
_MISSING = ("torch", "torch_geometric", "pymetis", "pyarrow", "networkx", "experiments")
_CALL = f"""
import sys
for name in {_MISSING}:
    sys.modules[name] = None
from deploy.cli import main
sys.argv = ["fedgt", *sys.argv[1:]]
main()
"""


def test_an_unknown_command_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = fedgt(capsys, monkeypatch, "rnu")
    assert (code, out) == (2, "")
    assert "'rnu'" in err
    assert len(err.splitlines()) == 1


def test_experiments_that_are_not_installed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "entry_points", lambda group: ())
    code, out, err = fedgt(capsys, monkeypatch, "experiment", "list")
    assert (code, out) == (2, "")
    assert err.endswith("pip install --editable ./experiments\n")
    assert len(err.splitlines()) == 1
    code, out, _ = fedgt(capsys, monkeypatch, "--help")
    assert code == 0
    assert "experiment" not in out


def test_a_package_adds_a_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    added = EntryPoint("added", "deploy.cli.provision:app", commands.ENTRY_POINTS)
    monkeypatch.setattr(commands, "entry_points", lambda group: (added,))
    assert "added" in fedgt(capsys, monkeypatch, "--help")[1]
    assert "revoke" in fedgt(capsys, monkeypatch, "added", "--help")[1]


@pytest.mark.parametrize("name", commands._COMMANDS)
def test_the_list_of_commands_tells_what_each_does(name: str) -> None:
    lazy = command_group().commands[name]
    assert isinstance(lazy, LazyCommand)
    loaded = lazy.load()
    assert isinstance(loaded, click.Command)
    assert lazy.help == inspect.cleandoc(loaded.help or "").split("\n\n")[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("config",),
        ("provision", "--help"),
        ("doctor", "--help"),
        ("launch", "--help"),
        ("resume", "--help"),
    ],
    ids=" ".join,
)
def test_the_coordinator_needs_no_graph_libraries(arguments: tuple[str, ...]) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", _CALL, *arguments], cwd=_ROOT, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
