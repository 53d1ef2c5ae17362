"""Help of the commands: the group that each is listed in, and an example that works.

A new command needs its name in ``GROUPS`` and a line in ``EXAMPLES``, as do the commands below it
('data import'). Tests run the examples, and fail for a command that has none.
"""

import textwrap
from collections.abc import Iterator, Mapping

import click

# The sections of 'fedgt --help', and their commands in the order of the list.
GROUPS: dict[str, tuple[str, ...]] = {
    "Try": ("demo",),
    "Your data": ("data",),
    "Train": ("run", "report", "watch", "results", "track", "audit", "config"),
    "Use": ("predict", "evaluate", "export", "explain"),
    "Deploy": ("provision", "doctor", "policy", "outbound", "launch", "resume", "rejoin"),
    "Operate": ("runs", "follow", "stop", "status", "backup", "restore", "clean"),
    "Research": ("experiment", "bench"),
}
_OTHERS = "Others"
# Related commands share a line of the list, so that all fit on a screen of 24 lines.
_TOGETHER: dict[tuple[str, ...], str] = {
    ("report", "watch"): "The page of a run: as a file, or live",
    ("results", "track"): "Its numbers: a table, TensorBoard or MLflow",
    ("audit", "config"): "Attack its uploads; print all its settings",
    ("evaluate", "export"): "Measure and calibrate a model; export it",
    ("doctor", "policy"): "Check a kit; show what an institution allows",
    ("launch", "resume", "rejoin"): "Train a deployed federation; continue its run",
    ("runs", "follow", "stop"): "List a coordinator's runs, follow or stop one",
    ("backup", "restore", "clean"): "Save and restore a kit; free disk space",
    ("experiment", "bench"): "The paper's tables; speed and memory",
}

# One command each. The tables, runs and kits that they name
# are those of docs/tutorial.md.
EXAMPLES: dict[str, str] = {
    "demo": "fedgt demo --rounds 10",
    "run": "fedgt run --clients 3 --rounds 5 --compare local --out runs/first",
    "report": "fedgt report runs/first",
    "watch": "fedgt watch runs/first",
    "results": "fedgt results runs/first --format parquet --out results.parquet",
    "audit": "fedgt audit runs/first --rounds 2",
    "track": "fedgt track runs/first --tensorboard boards/first",
    "config": "fedgt config --set method=fedavg > run.toml",
    "data list": "fedgt data list",
    "data stats": "fedgt data stats consortium --clients 6",
    "data schema propose": "fedgt data schema --nodes a.csv --id account --label risk --out a.json",
    "data schema merge": "fedgt data schema merge a.json b.json --out schema.json",
    "data import": "fedgt data import --nodes a.csv --edges a-links.csv --id account "
    "--label risk --source from --target to --schema schema.json --out bank-a",
    "predict": "fedgt predict runs/banks --institution bank-a --out scores.csv",
    "evaluate": "fedgt evaluate runs/banks --institution bank-a --positive high --recall 0.8",
    "export": "fedgt export runs/banks --institution bank-a --out model-a",
    "explain": "fedgt explain runs/banks --institution bank-a --id a7",
    "provision make": "fedgt provision federation.toml --out kits",
    "provision revoke": "fedgt provision revoke bank-b --out kits",
    "provision key": "fedgt provision key bank-c --name bank-c",
    "provision register": "fedgt provision register kits/coordinator",
    "provision approve": "fedgt provision approve kits/bank-a app",
    "provision app": "fedgt provision app app",
    "doctor": "fedgt doctor kits/bank-a --only data",
    "policy check": "fedgt policy check kits/coordinator/run.toml kits/bank-a",
    "policy show": "fedgt policy show",
    "outbound": "fedgt outbound kits/bank-a --run first",
    "launch": "fedgt launch kits/coordinator --settings kits/coordinator/run.toml",
    "resume": "fedgt resume kits/coordinator --run first",
    "rejoin": "fedgt rejoin kits/bank-a --run first",
    "runs": "fedgt runs kits/coordinator",
    "follow": "fedgt follow first --kit kits/coordinator",
    "stop": "fedgt stop first --kit kits/coordinator",
    "status": "fedgt status kits/coordinator --prometheus fedgt.prom",
    "backup": "fedgt backup kits/bank-a --out bank-a.tar.gz",
    "restore": "fedgt restore bank-a.tar.gz restored",
    "clean": "fedgt clean kits/bank-a",
    "experiment list": "fedgt experiment list",
    "experiment run": "fedgt experiment run main-disjoint --only dataset=cora --list",
    "experiment trials": "fedgt experiment trials cora --list",
    "experiment table": "fedgt experiment table main-disjoint",
    "experiment figure": "fedgt experiment figure convergence --out pictures",
    "experiment readme": "fedgt experiment readme --check",
    "experiment privacy": "fedgt experiment privacy --check",
    "bench attacks": "fedgt bench attacks --only NaN --seed 0 --rounds 2 --records attacks.jsonl",
    "bench prepare": "fedgt bench prepare --nodes 2000",
    "bench epoch": "fedgt bench epoch --repeats 1",
    "bench scale": "fedgt bench scale --nodes 2000",
    "bench wire": "fedgt bench wire --rounds 1",
    "bench server": "fedgt bench server",
    "bench round": "fedgt bench round --rounds 2",
    "bench social": "fedgt bench social --nodes 500",
    "bench import": "fedgt bench import --nodes 1000 --edges 5000",
    "bench docs": "fedgt bench docs --check",
}
_GROUP_WIDTH, _NAME_WIDTH = 11, 24
_EXAMPLE_WIDTH = 74
SUMMARY_WIDTH = 80 - _GROUP_WIDTH - _NAME_WIDTH  # characters of a line in the list


def with_examples(command: click.Command, path: str) -> click.Command:
    """Return the command; its help, and that of those below it, ends with an example."""
    found = [(name, one) for name, one in commands_below(command, path) if name in EXAMPLES]
    if isinstance(command, click.Group) and found:
        _add_example(command, found[0][0])
    for name, one in found:
        _add_example(one, name)
    return command


def _add_example(command: click.Command, name: str) -> None:
    """Print an example after the help, in lines that can be copied.

    Not as Typer's epilog, which wraps lines anywhere and fills them up with spaces.
    """
    lines = textwrap.wrap(EXAMPLES[name], _EXAMPLE_WIDTH, break_on_hyphens=False)
    text = "Example:\n  {}\n".format(" \\\n      ".join(lines))
    write_help = command.format_help

    def format_help(ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_help(ctx, formatter)
        formatter.write(text)

    command.format_help = format_help  # type: ignore[method-assign]


def commands_below(command: click.Command, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield the commands that do something, each with its name as it is typed."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, below in command.commands.items():
        yield from commands_below(below, f"{path} {name}")


def command_list(commands: Mapping[str, click.Command]) -> str:
    """Return the commands by groups, related ones on one line."""
    grouped = {name for names in GROUPS.values() for name in names}
    rest = tuple(name for name in commands if name not in grouped)
    lines = []
    for group, names in {**GROUPS, _OTHERS: rest}.items():
        title = group
        for row in _rows([name for name in names if name in commands]):
            head = click.style(title.ljust(_GROUP_WIDTH), bold=True)
            shown = click.style(", ".join(row).ljust(_NAME_WIDTH), fg="cyan")
            text = _TOGETHER.get(row) or commands[row[0]].get_short_help_str(SUMMARY_WIDTH)
            lines.append(f"{head}{shown}{text.rstrip('.')}")
            title = ""
    return "\n".join(lines)


def _rows(names: list[str]) -> list[tuple[str, ...]]:
    """Return commands that stand together where all of them are there, and each other by itself."""
    found = [row for row in _TOGETHER if set(row) <= set(names)]
    rows = {row[0]: row for row in found}
    later = {name for row in found for name in row[1:]}
    return [rows.get(name, (name,)) for name in names if name not in later]
