"""Commands are loaded when they are called, and other packages can add some."""

import inspect
import subprocess
import sys
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest

from deploy.cli import command_help, commands
from deploy.cli.command_help import EXAMPLES, GROUPS, SUMMARY_WIDTH, commands_below
from deploy.cli.commands import LazyCommand, command_group
from tests.harness.kits import fedgt

_ROOT = Path(__file__).parents[3]
_HELP = Path(command_help.__file__).relative_to(_ROOT)
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


@cache
def all_commands() -> dict[str, click.Command]:
    """Return every command that does something, by what is typed for it."""
    loaded = {
        name: lazy.load()
        for name, lazy in command_group().commands.items()
        if isinstance(lazy, LazyCommand)
    }
    return dict(
        found for name, command in loaded.items() for found in commands_below(command, name)
    )


def _line_of(text: str) -> str:
    lines = (_ROOT / _HELP).read_text().splitlines()
    return f"{_HELP}:{next(k for k, line in enumerate(lines, 1) if line.startswith(text))}"


def test_every_command_is_in_a_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    for name in command_group().commands:
        place = _line_of("GROUPS")
        assert name in grouped, f"add '{name}' to one of the groups at {place}"
    assert len(grouped) == len(set(grouped))


def test_every_command_has_an_example() -> None:
    for name in all_commands():
        place = _line_of("EXAMPLES")
        assert name in EXAMPLES, f"add '{name}' and a command that works to EXAMPLES at {place}"


@pytest.mark.parametrize("name", command_group().commands)
def test_the_summary_fits_a_line(name: str) -> None:
    summary = command_group().commands[name].help or ""
    assert len(summary) <= SUMMARY_WIDTH, f"shorten the summary of '{name}' in commands.py"


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
        ("report", "--help"),
        ("watch", "--help"),
    ],
    ids=" ".join,
)
def test_the_coordinator_needs_no_graph_libraries(arguments: tuple[str, ...]) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", _CALL, *arguments], cwd=_ROOT, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr


def test_a_command_without_its_libraries_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load() -> None:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    monkeypatch.setattr(LazyCommand, "load", lambda _: load())
    code, out, err = fedgt(capsys, monkeypatch, "predict", ".")
    assert (code, out) == (2, "")
    assert "needs pyarrow, which is not installed here" in err
    assert len(err.splitlines()) == 1
