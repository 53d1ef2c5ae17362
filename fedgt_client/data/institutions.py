"""From a dataset's name to the subgraphs of its institutions."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgt_client.data.catalog import CONSORTIUM, check_dataset, component_nodes, load_dataset
from fedgt_client.data.consortium import generate
from fedgt_client.data.partition import check_partition, partition
from fedgt_client.data.split import split_graph, split_ratios
from fedgt_client.graph import Graph


def divide(
    dataset: str,
    *,
    clients: int,
    setting: str,
    seed: int,
    data_dir: Path | None = None,
    largest_component: bool | None = None,
) -> tuple[Graph, list[NDArray[np.int64]]]:
    """The whole graph, split once for all, and the node ids of every institution.

    Accounts of ``consortium`` know their bank, so its ``disjoint`` institutions are the banks
    themselves: as many are generated as there are clients.
    """
    check_dataset(dataset, data_dir)
    check_partition(clients, setting, seed)
    if dataset == CONSORTIUM and setting == "disjoint":
        graph, bank = generate(clients, seed)
        if largest_component:
            nodes = component_nodes(graph)
            graph, bank = graph.subgraph(nodes), bank[nodes]
        members = [np.flatnonzero(bank == index) for index in range(clients)]
    else:
        graph = load_dataset(
            dataset, data_dir=data_dir, seed=seed, largest_component=largest_component
        )
        members = partition(graph, clients, setting, seed)
    # Before slicing, so that overlapping institutions never see each other's test labels.
    return split_graph(graph, split_ratios(dataset, setting), seed), members


def institutions(
    dataset: str,
    *,
    clients: int,
    setting: str,
    seed: int,
    data_dir: Path | None = None,
    largest_component: bool | None = None,
) -> list[Graph]:
    """The institutions' subgraphs: load, split globally, partition, slice.

    ``largest_component`` None leaves it to the dataset: benchmarks are reduced to their largest
    connected component, ``consortium`` is not.
    """
    graph, members = divide(
        dataset,
        clients=clients,
        setting=setting,
        seed=seed,
        data_dir=data_dir,
        largest_component=largest_component,
    )
    return [graph.subgraph(nodes) for nodes in members]
