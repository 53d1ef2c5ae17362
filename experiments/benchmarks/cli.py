"""``fedgt bench``: speed and memory beside a peer or a limit, in one run on one machine."""

from pathlib import Path
from typing import Annotated

import typer

from deploy.cli.output import Json, console, print_json, print_table, status_console
from experiments.benchmarks.progress import to_terminal
from experiments.benchmarks.report import Report, as_text, broken
from experiments.benchmarks.results import RESULTS
from shared.errors import FedGTError
from shared.files import atomic_file

app = typer.Typer(
    help="Measure speed and memory.",
    no_args_is_help=True,
    add_completion=False,
)

Nodes = Annotated[
    list[int] | None, typer.Option(min=10, help="Nodes of a graph; give it once for each size.")
]


def _show(report: Report, json: bool) -> None:
    if json:
        print_json(report.model_dump(mode="json"))
        return
    for table in filter(lambda table: table.rows, report.tables):
        for part in table.parts(console.width):
            print_table(part.title, [broken(text) for text in part.headings()], part.texts())
            print()
    facts = report.machine
    machine = (
        f"{facts['processor']}, {as_text(facts['cores'])} cores, torch {facts['torch']}, "
        f"load {as_text(facts['load'])} before"
    )
    for note in (*report.notes, machine):
        status_console.print(note, highlight=False, markup=False, soft_wrap=True)


@app.command()
def prepare(
    nodes: Nodes = None,
    kind: Annotated[
        str, typer.Option(help="Of the graphs of --nodes: communities, social, chain.")
    ] = "communities",
    peers: Annotated[
        bool, typer.Option(help="Also small graphs beside dense inverse and PyG's get_ppr.")
    ] = True,
    json: Json = False,
) -> None:
    """Measure PPR and positional encoding; default: graphs of 2,000 to 40,000 nodes."""
    from experiments.benchmarks import prepare as benchmark

    compared = benchmark.COMPARED if peers else ()
    _show(benchmark.bench(compared, kind, nodes or benchmark.SIZES, to_terminal()), json)


@app.command()
def epoch(
    repeats: Annotated[
        int, typer.Option(min=1, help="Local rounds measured after the first.")
    ] = 10,
    rounds: Annotated[int, typer.Option(min=2, help="Rounds of whole runs.")] = 100,
    json: Json = False,
) -> None:
    """Measure a local round beside FedAvg's GraphSAGE and PyG's."""
    from experiments.benchmarks import epoch as benchmark

    _show(benchmark.bench(repeats, rounds, to_terminal()), json)


@app.command()
def scale(
    nodes: Nodes = None,
    sampler: Annotated[str, typer.Option(help="ppr, graphsage or attribute.")] = "graphsage",
    json: Json = False,
) -> None:
    """Measure one institution up to the end of round 1; default: 10,000 to 160,000 nodes."""
    from experiments.benchmarks import scale as benchmark

    _show(benchmark.bench(nodes or benchmark.SIZES, sampler, to_terminal()), json)


@app.command()
def wire(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the last one counts.")] = 3,
    json: Json = False,
) -> None:
    """Measure the bytes of a round beside FedAvg-GraphSAGE's in float32."""
    from experiments.benchmarks import wire as benchmark

    _show(benchmark.bench(rounds, to_terminal()), json)


@app.command()
def server(
    case: Annotated[
        list[str] | None,
        typer.Option(metavar="MxP", help="Institutions and parameters, e.g. 400x400000."),
    ] = None,
    json: Json = False,
) -> None:
    """Measure the coordinator's aggregation beside the bare matrix product."""
    from experiments.benchmarks import server as benchmark

    cases = [parse_case(text) for text in case] if case else benchmark.CASES
    _show(benchmark.bench(cases, to_terminal()), json)


def parse_case(text: str) -> tuple[int, int]:
    """Return the institutions and parameters in ``MxP``."""
    institutions, _, parameters = text.partition("x")
    try:
        found = int(institutions), int(parameters)
    except ValueError:
        found = 0, 0
    if min(found) < 1:
        raise FedGTError(f"--case is '{text}', expected two counts such as 400x400000")
    return found


@app.command("round")
def round_command(
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each run.")] = 100,
    dataset: Annotated[
        str, typer.Option(help="Of 'fedgt data list'; default: cora if found, else consortium.")
    ] = "",
    json: Json = False,
) -> None:
    """Measure whole runs in one process beside clients that do nothing."""
    from experiments.benchmarks import rounds as benchmark

    _show(benchmark.bench(rounds, dataset, to_terminal()), json)


@app.command()
def social(nodes: Nodes = None, json: Json = False) -> None:
    """Measure six institutions with social graphs, from imported folders to round 1."""
    from experiments.benchmarks import social as benchmark

    _show(benchmark.bench(nodes or benchmark.SIZES, to_terminal()), json)


@app.command("import")
def import_command(
    nodes: Annotated[int, typer.Option(min=10, help="Rows of the nodes file.")] = 1_000_000,
    edges: Annotated[int, typer.Option(min=1, help="Rows of the edges file.")] = 10_000_000,
    json: Json = False,
) -> None:
    """Measure 'fedgt data import' of CSV and of Parquet."""
    from experiments.benchmarks import imports as benchmark

    _show(benchmark.bench(nodes, edges, to_terminal()), json)


@app.command()
def attacks(
    only: Annotated[
        str, typer.Option(metavar="TEXT", help="Of the rows only those whose name holds this.")
    ] = "",
    seed: Annotated[
        list[int] | None, typer.Option(min=0, help="Seeds; default: 0, 1 and 2.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each run.")] = 15,
    records: Annotated[
        Path, typer.Option(help="File of runs that are over; others are added.", show_default=False)
    ] = RESULTS / "attacks.jsonl",
    json: Json = False,
) -> None:
    """Measure what institutions that attack do to the others, by attack and defence."""
    from experiments.benchmarks import attacks as benchmark

    found = benchmark.cases(rounds)
    chosen = [case for case in found if only in f"{case.defence}: {case.attack}"]
    if not chosen:
        raise FedGTError(
            f"--only is '{only}', which is in no row: see 'fedgt bench attacks --help'"
        )
    seeds = seed or benchmark.SEEDS
    _show(benchmark.bench(chosen, seeds, rounds, records, to_terminal()), json)


@app.command()
def docs(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 1 where a page differs.")
    ] = False,
    results: Annotated[
        Path,
        typer.Option(
            help="Folder of NAME.json, as --json prints it, and attacks.jsonl.", show_default=False
        ),
    ] = RESULTS,
) -> None:
    """Rewrite the tables of docs/performance.md, scale.md and security.md from the results."""
    from experiments.benchmarks.pages import PAGES, rewritten

    for page in PAGES:
        before = page.read_text()
        after = rewritten(before, results)
        if check and after != before:
            status_console.print(f"{page.name} differs from the results: fedgt bench docs")
            raise typer.Exit(1)
        if not check:
            with atomic_file(page) as staging:
                staging.write_text(after)


if __name__ == "__main__":
    app(prog_name="fedgt bench")
