"""``fedgt experiment``: the paper's tables and figures, run and shown."""

import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.output import Json, Quiet, console, print_json, print_table, status_console
from experiments import privacy_runs, privacy_tables
from experiments.build_tables import build_table
from experiments.choices import CHOICES
from experiments.figures import draw
from experiments.grids import EXPERIMENTS, experiment
from experiments.job import Job
from experiments.progress import progress
from experiments.protocol import FAMILIES
from experiments.readme import README, draw_pictures, rewritten
from experiments.records import RESULTS, finished
from experiments.result_table import Row, Table, comma_separated, markdown
from experiments.schedule import do_all, unfinished
from experiments.trials import check_chosen, choose, trial_jobs, write_choices
from shared.errors import FedGTError
from shared.files import atomic_file

app = typer.Typer(
    help="Run and show the paper's tables.", no_args_is_help=True, add_completion=False
)

Results = Annotated[Path, typer.Option(help="Folder of the records.", show_default=False)]
_CORES = os.cpu_count() or 1
Jobs = Annotated[int, typer.Option(min=1, help="Runs at a time.")]
DataDir = Annotated[Path | None, typer.Option(help="Where raw datasets lie.")]
ShowOnly = Annotated[bool, typer.Option("--list", help="List the runs without starting them.")]


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
    jobs: Jobs = _CORES,
    data_dir: DataDir = None,
    results: Results = RESULTS,
    show: ShowOnly = False,
    quiet: Quiet = False,
) -> None:
    """Do all runs of these experiments that are not finished, cell by cell.

    Each run is a separate process and one record. What is interrupted loses
    the runs under way and nothing else: the same command goes on. Several such
    commands may work on one results folder at a time.
    """
    asked = select([job for name in names for job in experiment(name).jobs], only)
    if not show:
        check_chosen(asked)
    _do(asked, results, jobs, data_dir, show=show, quiet=quiet)


@app.command()
def trials(
    families: Annotated[
        list[str] | None, typer.Argument(help=f"Of {', '.join(FAMILIES)}; default: all.")
    ] = None,
    only: Annotated[
        str, typer.Option(metavar="KEY=VALUE[+VALUE…],…", help="As of 'run', e.g. variant=gcn.")
    ] = "",
    jobs: Jobs = _CORES,
    data_dir: DataDir = None,
    results: Results = RESULTS,
    show: ShowOnly = False,
    quiet: Quiet = False,
) -> None:
    """Do the trials that choose every method's settings, and write what they choose.

    Equal terms: docs/protocol.md. Records of trials hold no test accuracy. A method's choice is
    written when all its trials of a family are finished.
    """
    asked = [job for family in families or FAMILIES for job in trial_jobs(family)]
    try:
        _do(select(asked, only), results, jobs, data_dir, show=show, quiet=quiet)
    finally:
        if not show:
            choices, missing = choose(families or FAMILIES, results)
            write_choices(choices, CHOICES if results == RESULTS else results / CHOICES.name)
            chosen = sum(len(methods) for methods in choices.values())
            status_console.print(
                f"{chosen} choices written; {missing} trials are not finished", highlight=False
            )


def _do(
    asked: list[Job],
    results: Path,
    parallel: int,
    data_dir: Path | None,
    *,
    show: bool,
    quiet: bool,
) -> None:
    """Do what of ``asked`` is not finished, or only list it."""
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
    if not quiet:
        status_console.print(f"{len(waiting)} of {len(set(asked))} runs to do", highlight=False)
    with progress(len(waiting), quiet=quiet) as observe:
        state = do_all(waiting, results.absolute(), parallel=parallel, observe=observe)
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
    "variant": lambda job: job.variant if job.kind in ("run", "trial") else job.kind,
    "seed": lambda job: str(job.seed),
    "extra": lambda job: "/".join(f"{key}:{value}" for key, value in job.extra) or "none",
}


_CELL = 22  # characters of '83.41 ± 0.52 (81.49)' and a gap


class Form(StrEnum):
    """How a table is printed."""

    terminal = "terminal"
    markdown = "markdown"
    csv = "csv"


@app.command()
def table(
    name: Annotated[
        str,
        typer.Argument(
            help="An experiment of 'fedgt experiment list'; of accuracies also NAME/paired "
            "(differences from FedGT), NAME/way (from alone to the whole graph), NAME/finished "
            "(the columns that all rows have) and conflict/groups (whether they were found)."
        ),
    ],
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


@app.command()
def privacy(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 where a table differs.")
    ] = False,
    run: Annotated[
        bool, typer.Option("--run", help="Do the runs that have no record, one after the other.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="With --run: all of them anew.")] = False,
    only: Annotated[str, typer.Option(help="With --run: those whose name begins so.")] = "",
) -> None:
    """Rewrite the tables of docs/privacy.md from the records, after making those."""
    folder = privacy_tables.RECORDS / "runs"
    for one in privacy_runs.all_runs() if run else ():
        if one.name.startswith(only) and (again or not one.record(folder).exists()):
            result = privacy_runs.play(one)
            privacy_runs.write_record(folder, one, result)
            status_console.print(f"{one.name}, seed {one.seed}: {result.test_accuracy:.4f}")
    before = privacy_tables.PAGE.read_text()
    after = privacy_tables.rewritten(before)
    if not check:
        privacy_tables.PAGE.write_text(after)
    elif after != before:
        status_console.print("privacy.md differs from the records: fedgt experiment privacy")
        raise typer.Exit(1)
