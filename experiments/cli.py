"""``fedgt experiment``: the paper's tables and figures, run and shown."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from deploy.cli.output import Json, console, print_json, print_table, status_console
from experiments.build_tables import build_table
from experiments.figures import draw
from experiments.grids import EXPERIMENTS, experiment
from experiments.job import Job
from experiments.readme import README, draw_pictures, rewritten
from experiments.records import RESULTS, finished
from experiments.result_table import Row, Table, comma_separated, markdown
from experiments.schedule import Observer, State, do_all, unfinished
from shared.errors import FedGTError
from shared.files import atomic_file

app = typer.Typer(help="The paper's tables and figures, run and shown.", no_args_is_help=True)

Results = Annotated[Path, typer.Option(help="Folder of the records.", show_default=False)]


def _existing(results: Path) -> Path:
    """Check that a folder that was named exists; the project's own may be empty."""
    if results != RESULTS and not results.is_dir():
        raise FedGTError(f"results folder {results} does not exist")
    return results


@app.command("list")
def list_experiments(results: Results = RESULTS, json: Json = False) -> None:
    """List every experiment, and how many of its runs are finished."""
    _existing(results)
    counts = [
        {
            "name": item.name,
            "title": item.title,
            "finished": sum(finished(results, job) is not None for job in item.jobs),
            "jobs": len(item.jobs),
        }
        for item in EXPERIMENTS.values()
    ]
    if json:
        print_json({"experiments": counts})
        return
    rows = [
        [f"{item['name']:<15}{item['title']}", f"{item['finished']}/{item['jobs']}"]
        for item in counts
    ]
    print_table("", ["experiment", "finished"], rows)


@app.command()
def run(
    names: Annotated[list[str], typer.Argument(help="Experiments of 'fedgt experiment list'.")],
    only: Annotated[
        str,
        typer.Option(
            metavar="KEY=VALUE[+VALUE…],…",
            help="Of the runs only these, e.g. dataset=cora,variant=fedgt+local,seed=0.",
        ),
    ] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time.")] = os.cpu_count() or 1,
    data_dir: Annotated[Path | None, typer.Option(help="Where raw datasets lie.")] = None,
    results: Results = RESULTS,
    show: Annotated[
        bool, typer.Option("--list", help="List the runs without starting them.")
    ] = False,
) -> None:
    """Do all runs of these experiments that are not finished, cheap ones first.

    Each run is a separate process and one record. What is interrupted loses
    the runs under way and nothing else: the same command goes on. Several such
    commands may work on one results folder at a time.
    """
    asked = select([job for name in names for job in experiment(name).jobs], only)
    waiting = unfinished(asked, results)
    if show:
        for job in waiting:
            print(job.name)
        return
    if data_dir is not None:
        if not data_dir.is_dir():
            raise FedGTError(f"data folder {data_dir} does not exist")
        # For the processes of the runs.
        os.environ["FEDGT_DATA"] = str(data_dir.absolute())
    status_console.print(f"{len(waiting)} of {len(set(asked))} runs to do", highlight=False)
    with _progress(len(waiting)) as observe:
        state = do_all(waiting, results.absolute(), parallel=jobs, observe=observe)
    if state.failed:
        status_console.print(f"{len(state.failed)} of {state.total} runs failed", highlight=False)
        raise typer.Exit(1)


def select(jobs: list[Job], only: str) -> list[Job]:
    """Return the jobs that ``only`` lets through: for every key one of its values."""
    wanted: dict[str, set[str]] = {}
    for part in filter(None, (part.strip() for part in only.split(","))):
        key, found, values = part.partition("=")
        if not found or key not in _KEYS:
            raise FedGTError(f"--only {part}: expected KEY=VALUE with a key of {', '.join(_KEYS)}")
        if key in wanted:
            raise FedGTError(f"--only {part}: {key} is given twice; write {key}=A+B")
        wanted[key] = set(values.split("+"))
        known = {_KEYS[key](job) for job in jobs}
        if missing := sorted(wanted[key] - known):
            raise FedGTError(
                f"--only {part}: no run has {key} {missing[0]}; there are: "
                f"{', '.join(sorted(known))}"
            )
    chosen = [
        job for job in jobs if all(_KEYS[key](job) in values for key, values in wanted.items())
    ]
    if not chosen:
        raise FedGTError(f"--only {only}: no run matches")
    return chosen


_KEYS: dict[str, Callable[[Job], str]] = {
    "dataset": lambda job: job.dataset,
    "setting": lambda job: job.setting,
    "clients": lambda job: str(job.clients),
    "variant": lambda job: job.variant if job.kind == "run" else job.kind,
    "seed": lambda job: str(job.seed),
    "extra": lambda job: "/".join(f"{key}:{value}" for key, value in job.extra) or "none",
}


@contextmanager
def _progress(total: int) -> Iterator[Observer]:
    """Show a bar with the time left on a terminal, a line for each run elsewhere."""
    if not status_console.is_terminal:
        yield _line
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
    )
    with Progress(*columns, console=status_console) as progress:
        task = progress.add_task("runs", total=total, left="")

        def observe(state: State, line: str) -> None:
            if line:
                progress.console.print(line, highlight=False, markup=False)
            progress.update(task, completed=_ended(state), left=_time_left(state))

        yield observe


def _line(state: State, line: str) -> None:
    if line:
        text = f"[{_ended(state)}/{state.total}] {line}; {_time_left(state)}"
        status_console.print(text, highlight=False, markup=False, soft_wrap=True)


def _ended(state: State) -> int:
    return len(state.done) + len(state.failed)


def _time_left(state: State) -> str:
    seconds = state.seconds_left
    if seconds is None:
        return "time left not known yet"
    minutes = seconds / 60
    return f"about {minutes:.0f} min left" if minutes < 90 else f"about {minutes / 60:.1f} h left"


_CELL = 22  # characters of '83.41 ± 0.52 (81.49)' and a gap


class Form(StrEnum):
    """How a table is printed."""

    terminal = "terminal"
    markdown = "markdown"
    csv = "csv"


@app.command()
def table(
    name: Annotated[str, typer.Argument(help="An experiment of 'fedgt experiment list'.")],
    form: Annotated[Form, typer.Option("--format", help="For people, a README, programs.")] = (
        Form.terminal
    ),
    results: Results = RESULTS,
) -> None:
    """Print an experiment's table: ours over the seeds, in brackets the paper's."""
    built = build_table(name, _existing(results))
    if form is Form.markdown:
        print(markdown(built), end="")
    elif form is Form.csv:
        print(comma_separated(built), end="")
    else:
        for part in in_parts(built, console.width):
            print_table(part.title, part.headings(), part.texts(bold=("[bold]", "[/bold]")))
        for note in built.notes:
            status_console.print(note, highlight=False, markup=False, soft_wrap=True)


def in_parts(whole: Table, width: int) -> list[Table]:
    """Split a table into parts of as many columns as fit beside each other."""
    labels = max(len(row.label) for row in whole.rows)
    fitting = max((width - labels - 8) // _CELL, 1)
    starts = range(0, len(whole.columns), fitting)
    return [
        Table(
            whole.title,
            whole.first,
            whole.columns[start : start + fitting],
            tuple(Row(row.label, row.entries[start : start + fitting]) for row in whole.rows),
        )
        for start in starts
    ]


@app.command()
def figure(
    name: Annotated[str, typer.Argument(help="An experiment of 'fedgt experiment list'.")],
    out: Annotated[
        Path | None, typer.Option(help="A .png, .svg or .pdf file; default: NAME.png.")
    ] = None,
    results: Results = RESULTS,
) -> None:
    """Draw an experiment's figure from what has been run."""
    place = out or Path(f"{name}.png")
    missing = draw(name, _existing(results), place)
    if missing:
        status_console.print(missing, highlight=False, markup=False, soft_wrap=True)
    print(f"figure: {place}")


@app.command()
def readme(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 where a table differs.")
    ] = False,
    file: Annotated[Path, typer.Option(help="The file to rewrite.", show_default=False)] = README,
    results: Results = RESULTS,
) -> None:
    """Rewrite the README's tables from the records, and draw its pictures."""
    try:
        before = file.read_text()
    except UnicodeDecodeError:
        raise FedGTError(f"{file} is not UTF-8 text") from None
    after = rewritten(before, _existing(results))
    if not check:
        draw_pictures(after, results, file.parent)
        with atomic_file(file) as staging:
            staging.write_text(after)
    elif after != before:
        status_console.print(f"{file.name} differs from the records: fedgt experiment readme")
        raise typer.Exit(1)
