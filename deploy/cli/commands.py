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

from deploy.cli.command_help import command_list, with_examples
from shared.errors import FedGTError

ENTRY_POINTS = "fedgt.commands"

# Where each command is, and the first line of its help, which a test compares. Its group in
# 'fedgt --help' and its example stand in command_help.py.
_COMMANDS = {
    "demo": (
        "deploy.cli.demo:demo",
        "Train banks alone and together, and compare.",
    ),
    "run": (
        "deploy.cli.run:run",
        "Train a federation on this machine.",
    ),
    "report": (
        "deploy.cli.report:report",
        "Write the page of a run: one HTML file.",
    ),
    "watch": (
        "deploy.cli.watch:watch",
        "Serve a run's page while rounds finish.",
    ),
    "track": (
        "deploy.cli.track:track",
        "Write a run to TensorBoard or MLflow.",
    ),
    "results": (
        "deploy.cli.results:results",
        "Write the numbers of runs as one tidy table.",
    ),
    "audit": (
        "deploy.cli.audit:audit",
        "Attack a run's uploads as a coordinator.",
    ),
    "config": (
        "deploy.cli.config:config",
        "Print all settings with their meaning.",
    ),
    "data": (
        "deploy.cli.data:app",
        "Datasets, partitions and own tables.",
    ),
    "predict": (
        "deploy.cli.predict:predict",
        "Predict classes with an institution's model.",
    ),
    "evaluate": (
        "deploy.cli.evaluate:evaluate",
        "Measure and calibrate a model.",
    ),
    "export": (
        "deploy.cli.export:export",
        "Export an institution's model with a card.",
    ),
    "explain": (
        "deploy.cli.explain:explain",
        "Explain the prediction of one node.",
    ),
    "provision": (
        "deploy.cli.provision:app",
        "Make keys, certificates and scripts.",
    ),
    "doctor": (
        "deploy.cli.doctor:doctor",
        "Check a kit and say how to fix it.",
    ),
    "policy": (
        "deploy.cli.policy:app",
        "Show what an institution allows a run.",
    ),
    "outbound": (
        "deploy.cli.outbound:outbound",
        "List all uploads of an institution.",
    ),
    "rejoin": (
        "deploy.cli.rejoin:rejoin",
        "Rejoin a run whose state is lost here.",
    ),
    "launch": (
        "deploy.cli.coordinator:launch",
        "Train a deployed federation.",
    ),
    "resume": (
        "deploy.cli.coordinator:resume",
        "Continue a run from its last checkpoint.",
    ),
    "runs": (
        "deploy.cli.coordinator:runs",
        "List a coordinator's runs by name.",
    ),
    "follow": (
        "deploy.cli.coordinator:follow",
        "Show the log of a run until it is over.",
    ),
    "stop": (
        "deploy.cli.coordinator:stop",
        "Stop a run; 'resume' continues it.",
    ),
    "status": (
        "deploy.cli.operate:status",
        "Show a kit's connection, round, disk, budget.",
    ),
    "backup": (
        "deploy.cli.operate:backup",
        "Save a kit, with its keys, in one file.",
    ),
    "restore": (
        "deploy.cli.operate:restore",
        "Restore a kit from a backup.",
    ),
    "clean": (
        "deploy.cli.operate:clean",
        "Show or delete what a kit no longer needs.",
    ),
}
# What the kits' scripts call, and nobody types.
_HIDDEN = {"log": ("deploy.cli.log:log", "Pass on what comes in, and keep it in files.")}
# Commands of a package that may not be installed.
_ELSEWHERE = {
    "experiment": "Run and show the paper's tables.",
    "bench": "Measure speed and memory.",
}
_HOW_TO_INSTALL = (
    "'fedgt {}' is part of the sources: in their folder, pip install --editable ./experiments"
)
_END = """

'fedgt COMMAND --help' has options and an example. Documentation: docs/
"""


class LazyCommand(click.Command):
    """A command that is loaded when its arguments are parsed."""

    def __init__(self, name: str, help_line: str, load: Callable[[], Any]) -> None:
        super().__init__(name, help=help_line)
        self._load = load

    def load(self) -> click.Command:
        """Import the command."""
        found = self._load()
        if not isinstance(found, typer.Typer):
            single = typer.Typer(add_completion=False)
            single.command(self.name)(found)
            found = single
        return with_examples(typer.main.get_command(found), str(self.name))

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """Parse the arguments with the loaded command, which Click then invokes."""
        return self.load().make_context(*arguments, **options)


class CommandGroup(click.Group):
    """``fedgt``; says how to install a known command that is missing."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by groups, on one screen."""
        formatter.write(f"Usage: fedgt COMMAND ...\n\n{self.help}\n\n")
        formatter.write(command_list(self.commands) + _END)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of the group."""
        found = super().get_command(ctx, cmd_name)
        if cmd_name in _HIDDEN:
            source, help_line = _HIDDEN[cmd_name]
            load = EntryPoint(cmd_name, source, ENTRY_POINTS).load
            return LazyCommand(cmd_name, help_line, load)
        if found is None and cmd_name in _ELSEWHERE:
            raise FedGTError(_HOW_TO_INSTALL.format(cmd_name))
        return found


def command_group() -> CommandGroup:
    """Build the ``fedgt`` command from its own commands and those of installed packages."""
    commands = [
        LazyCommand(name, help_line, EntryPoint(name, source, ENTRY_POINTS).load)
        for name, (source, help_line) in _COMMANDS.items()
    ]
    for entry in entry_points(group=ENTRY_POINTS):
        package = entry.dist.name if entry.dist else entry.module
        help_line = _ELSEWHERE.get(entry.name, f"Of the package {package}.")
        commands.append(LazyCommand(entry.name, help_line, entry.load))
    return CommandGroup(
        name="fedgt",
        help="Federated node classification with scalable graph transformers, on Flower.",
        no_args_is_help=True,
        commands={str(command.name): command for command in commands},
    )
