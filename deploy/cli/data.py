"""``fedgt data``: datasets, partitions, an institution's own tables."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from deploy.cli import data_import, data_schema
from deploy.cli.output import Json, console, print_json, print_table
from fedgt_client.data.catalog import CATALOG, find_raw_files
from fedgt_client.data.paper_statistics import PaperStatistics, paper_statistics
from fedgt_client.data.partition import SETTINGS, partition_dataset
from fedgt_client.data.stats import ClientStats, PartitionStats, partition_stats
from fedgt_client.graph import Graph
from shared.errors import FedGTError

app = typer.Typer(
    help="Datasets, partitions and own tables.",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(data_schema.app, name="schema")
app.add_typer(data_import.app)

DataDir = Annotated[
    Path | None,
    typer.Option(help="Folder with raw files; searched before $FEDGT_DATA and the user's cache."),
]


@app.command("list")
def list_datasets(data_dir: DataDir = None, json: Json = False) -> None:
    """List the datasets that can be named, and where their files were found."""
    if data_dir is not None and not data_dir.is_dir():
        raise FedGTError(f"data folder {data_dir} does not exist")
    datasets = [
        {
            "name": dataset.name,
            "nodes": dataset.nodes,
            "edges": dataset.edges,
            "classes": dataset.classes,
            "features": dataset.features,
            "generated": dataset.source is None,
            "found": dataset.source is None or place is not None,
            "folder": None if place is None else str(place),
        }
        for dataset in CATALOG.values()
        for place in [find_raw_files(dataset.name, data_dir)]
    ]
    if json:
        print_json({"datasets": datasets})
        return
    rows = [
        (
            str(dataset["name"]),
            *(f"{dataset[key]:,}" for key in ("nodes", "edges", "classes", "features")),
            "generated" if dataset["generated"] else "yes" if dataset["found"] else "no",
        )
        for dataset in datasets
    ]
    columns = ("dataset", "nodes", "edges", "classes", "features", "found")
    print_table("Datasets (whole graphs)", columns, rows)
    for dataset in datasets:
        if dataset["folder"]:
            # Below the table and unwrapped, so that a path stays one word to copy.
            console.print(
                f"{dataset['name']}: {dataset['folder']}", soft_wrap=True, highlight=False
            )


@app.command()
def stats(
    dataset: Annotated[str, typer.Argument(help=f"One of: {', '.join(CATALOG)}.")],
    clients: Annotated[int, typer.Option(help="How many clients.")] = 10,
    setting: Annotated[str, typer.Option(help=f"One of: {', '.join(SETTINGS)}.")] = "disjoint",
    seed: Annotated[int, typer.Option(help="Of the partition, the split and the generator.")] = 0,
    data_dir: DataDir = None,
    largest_component: Annotated[
        bool | None,
        typer.Option(
            "--largest-component/--whole-graph",
            help="Reduce to the largest connected component; by default the benchmarks are.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Divide a dataset among clients and count what that does, beside the paper's figures."""
    graph, members = partition_dataset(
        dataset,
        clients=clients,
        setting=setting,
        seed=seed,
        data_dir=data_dir,
        largest_component=largest_component,
    )
    ours, paper = partition_stats(graph, members), paper_statistics(dataset, setting, clients)
    if json:
        request = {"dataset": dataset, "setting": setting, "seed": seed}
        whole = {"nodes": graph.num_nodes, "edges": graph.num_edges}
        print_json({**request, **whole, **asdict(ours), "paper": asdict(paper)})
    else:
        _print_stats(f"{dataset}, {setting}, {clients} clients", graph, ours, paper)


def _print_stats(title: str, graph: Graph, ours: PartitionStats, paper: PaperStatistics) -> None:
    rows = [
        (str(index), f"{client.nodes:,}", f"{client.edges:,}", _largest_class(graph, client))
        for index, client in enumerate(ours.clients)
    ]
    print_table(title, ("client", "nodes", "edges", "largest class"), rows)
    links = "–" if paper.missing_links is None else f"{paper.missing_links:,}"
    distance = "–" if paper.heterogeneity is None else f"{paper.heterogeneity:.3f}"
    figures = [
        ("missing links", f"{ours.missing_links:,}", links),
        ("label heterogeneity", f"{ours.heterogeneity:.3f}", distance),
    ]
    size = f"{graph.num_nodes:,} nodes, {graph.num_edges:,} edges"
    console.print(f"\nOf the whole graph, {size}:", soft_wrap=True, highlight=False)
    print_table("", ("", "ours", "paper"), figures)


def _largest_class(graph: Graph, client: ClientStats) -> str:
    labelled = sum(client.labels)
    if labelled == 0:
        return "–"
    largest = max(range(graph.num_classes), key=client.labels.__getitem__)
    return f"{graph.class_names[largest]} {client.labels[largest] / labelled:.0%}"
