"""The commands of ``fedgt``, each imported when it is called and not before.

The coordinator's image has neither torch nor the institution's graph libraries, and 'fedgt --help'
should not wait for them anywhere. Other packages add commands by an entry point of the group
``fedgt.commands``: its name is the command's, its object a Typer application.
"""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click
import typer
from typer.core import TyperGroup

from shared.errors import FedGTError

ENTRY_POINTS = "fedgt.commands"

# Where each command is, and the first line of its help, which a test compares.
_COMMANDS = {
    "demo": (
        "deploy.cli.demo:demo",
        "Train banks each alone and with FedGT through Flower, and compare.",
    ),
    "run": (
        "deploy.cli.run:run",
        "Train a federation of simulated institutions on this machine.",
    ),
    "config": (
        "deploy.cli.config:config",
        "Print every setting with its meaning, as a file for 'flwr run --run-config FILE'.",
    ),
    "data": (
        "deploy.cli.data:app",
        "Datasets, partitions, and an institution's own data.",
    ),
    "predict": (
        "deploy.cli.predict:predict",
        "Predict classes of an institution's nodes with the best model it has trained.",
    ),
    "evaluate": (
        "deploy.cli.evaluate:evaluate",
        "Measure the best model of an institution, calibrate it, and choose a threshold.",
    ),
    "export": (
        "deploy.cli.export:export",
        "Export the best model of an institution: weights, settings, schema, model card.",
    ),
    "explain": (
        "deploy.cli.explain:explain",
        "Explain one node's prediction: which neighbours and global nodes it leans on.",
    ),
    "provision": (
        "deploy.cli.provision:app",
        "Keys, certificates and scripts for every machine: 'fedgt provision federation.toml'.",
    ),
    "doctor": (
        "deploy.cli.doctor:doctor",
        "Check a kit: data, key, certificates, the way to the coordinator, disk, device.",
    ),
    "launch": (
        "deploy.cli.coordinator:launch",
        "Train the federation whose SuperLink runs here; 'run.sh' of the kit does it.",
    ),
    "resume": (
        "deploy.cli.coordinator:resume",
        "Continue a run whose SuperLink or ServerApp ended, from its last checkpoint.",
    ),
}
# Commands of packages that may not be installed, and how to install them.
_ELSEWHERE = {
    name: f"'fedgt {name}' is part of the sources: in their folder, "
    "pip install --editable ./experiments"
    for name in ("experiment", "bench")
}


class LazyCommand(click.Command):
    """A command that is loaded when its arguments are parsed."""

    def __init__(self, name: str, help_line: str, load: Callable[[], Any]) -> None:
        super().__init__(name, help=help_line)
        self._load = load

    def load(self) -> click.Command:
        """Import the command."""
        found = self._load()
        if isinstance(found, typer.Typer):
            return typer.main.get_command(found)
        single = typer.Typer(add_completion=False)
        single.command(self.name)(found)
        return typer.main.get_command(single)

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parse the arguments with the loaded command, which Click then invokes."""
        return self.load().make_context(*arguments, **options)


class CommandGroup(TyperGroup):
    """``fedgt``; says how to install a known command that is missing."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of the group."""
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in _ELSEWHERE:
            raise FedGTError(_ELSEWHERE[cmd_name])
        return found


def command_group() -> CommandGroup:
    """Build the ``fedgt`` command from its own commands and those of installed packages."""
    commands = [
        LazyCommand(name, help_line, EntryPoint(name, source, ENTRY_POINTS).load)
        for name, (source, help_line) in _COMMANDS.items()
    ]
    for entry in entry_points(group=ENTRY_POINTS):
        package = entry.dist.name if entry.dist else entry.module
        commands.append(LazyCommand(entry.name, f"Of the package {package}.", entry.load))
    return CommandGroup(
        name="fedgt",
        help="Federated node classification with scalable graph transformers, on Flower.",
        no_args_is_help=True,
        commands={str(command.name): command for command in commands},
    )
