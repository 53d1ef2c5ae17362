"""Partition a graph among clients as the paper does (Section 5.1 and its appendices)."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymetis
from numpy.typing import NDArray

from fedgt_client.csr import undirected
from fedgt_client.data import RandomStream
from fedgt_client.data.catalog import (
    CONSORTIUM,
    check_dataset,
    largest_component_nodes,
    load_dataset,
)
from fedgt_client.data.consortium import generate
from fedgt_client.data.split import split_graph, split_ratios
from fedgt_client.graph import UNLABELLED, Graph
from shared.errors import FedGTError

Nodes = NDArray[np.int64]

SETTINGS = ("disjoint", "overlap", "louvain", "unbalanced", "conflict")
CONFLICTING_GROUPS = 2  # of clients that agree among themselves on what features mean
SAMPLES_PER_PART = 5  # overlapping clients sampled from the same METIS part
SMALLEST_SHARE = 0.1  # smallest share of its METIS part that an unbalanced client keeps
METIS_CUTS = 10  # METIS tries this many cuts and keeps the one that loses fewest links
FEWEST_NODES = 5  # fewest nodes of an unbalanced client, if its part has that many


def partition_dataset(
    dataset: str,
    *,
    clients: int,
    setting: str,
    seed: int,
    data_dir: Path | None = None,
    largest_component: bool | None = None,
) -> tuple[Graph, list[NDArray[np.int64]]]:
    """Return a dataset's whole graph with its split, and the node ids of every institution.

    Accounts of ``consortium`` belong to a bank, so its ``disjoint`` institutions are the banks:
    one is generated for each client. ``conflict`` is ``disjoint`` with groups of institutions
    that disagree on what features mean. ``largest_component`` None leaves the choice to the
    dataset: benchmarks are reduced to their largest connected component, ``consortium`` is not.
    """
    check_dataset(dataset, data_dir)
    check_partition(clients, setting, seed)
    if dataset == CONSORTIUM and setting in ("disjoint", "conflict"):
        # In a conflict of one kind: two kinds could be told apart by their features.
        graph, bank = (
            generate(clients, seed, 1) if setting == "conflict" else generate(clients, seed)
        )
        if largest_component:
            nodes = largest_component_nodes(graph)
            graph, bank = graph.subgraph(nodes), bank[nodes]
        members = [np.flatnonzero(bank == index) for index in range(clients)]
    else:
        graph = load_dataset(
            dataset, data_dir=data_dir, seed=seed, largest_component=largest_component
        )
        members = partition_graph(graph, clients, setting, seed)
    if setting == "conflict":
        graph = with_conflict(graph, members)
    # Split before slicing: overlapping institutions must not train on each other's test labels.
    return split_graph(graph, split_ratios(dataset, setting), seed), members


def with_conflict(graph: Graph, members: list[Nodes]) -> Graph:
    """Give every second client's nodes the next class's label: what is 0 to some is 1 to others.

    So no model fits both groups, client i being of group i mod 2, and a plain mean must fail.
    """
    labels = graph.labels.copy()
    for index, nodes in enumerate(members):
        known = nodes[labels[nodes] != UNLABELLED]
        labels[known] = (labels[known] + index % CONFLICTING_GROUPS) % graph.num_classes
    return replace(graph, labels=labels)


def institution_graphs(
    dataset: str,
    *,
    clients: int,
    setting: str,
    seed: int,
    data_dir: Path | None = None,
    largest_component: bool | None = None,
) -> list[Graph]:
    """Return the subgraph of every institution; arguments as for ``partition_dataset``."""
    graph, members = partition_dataset(
        dataset,
        clients=clients,
        setting=setting,
        seed=seed,
        data_dir=data_dir,
        largest_component=largest_component,
    )
    return [graph.subgraph(nodes) for nodes in members]


def partition_graph(graph: Graph, clients: int, setting: str, seed: int) -> list[Nodes]:
    """Return the sorted node ids of every client.

    Parameters
    ----------
    graph : Graph
        The whole graph, n nodes.
    clients : int
        Number of clients, 1..n; a multiple of 5 for ``overlap``.
    setting : str
        ``disjoint``: METIS parts, every node at one client.
        ``overlap``: METIS into clients / 5 parts, each sampled 5 times at half its nodes; clients
        5i..5i+4 are samples of part i.
        ``louvain``: communities, merged (and cut if too large) into clients of similar size.
        ``unbalanced``: a random 10-100 % of each METIS part.
        ``conflict``: METIS parts, as ``disjoint``.
    seed : int
        The same seed gives the same clients, in any process.
    """
    check_partition(clients, setting, seed)
    if clients > graph.num_nodes:
        raise FedGTError(f"clients is {clients}, but the graph has only {graph.num_nodes} nodes")
    rng = np.random.default_rng([seed, RandomStream.PARTITION])
    if setting == "overlap":
        parts = metis_parts(graph, clients // SAMPLES_PER_PART, seed)
        return [_sample(part, 0.5, 1, rng) for part in parts for _ in range(SAMPLES_PER_PART)]
    if setting == "louvain":
        return _louvain(graph, clients, seed)
    parts = metis_parts(graph, clients, seed)
    if setting == "unbalanced":
        shares = rng.uniform(SMALLEST_SHARE, 1.0, clients)
        pairs = zip(parts, shares, strict=True)
        return [_sample(part, share, FEWEST_NODES, rng) for part, share in pairs]
    return parts


def check_partition(clients: int, setting: str, seed: int) -> None:
    """Raise an error for a request that no graph can satisfy, before any graph is loaded."""
    if setting not in SETTINGS:
        raise FedGTError(f"setting is '{setting}', expected one of {', '.join(SETTINGS)}")
    if clients < 1:
        raise FedGTError(f"clients is {clients}, expected 1 or more")
    if setting == "overlap" and clients % SAMPLES_PER_PART:
        raise FedGTError(
            f"clients is {clients}, expected a multiple of {SAMPLES_PER_PART} for 'overlap'"
        )
    if seed < 0:
        raise FedGTError(f"seed is {seed}, expected 0 or more")


def metis_parts(graph: Graph, parts: int, seed: int) -> list[Nodes]:
    """Return METIS parts of similar size with few links between them; no part is empty.

    Recursive bisection, best of ten cuts: of the configurations compared, this one comes closest
    to the paper's missing links and heterogeneity over all datasets (``docs/data.md``).
    """
    if parts == 1:
        return [np.arange(graph.num_nodes)]
    indptr, indices = graph.indptr, graph.indices
    if graph.directed:  # METIS expects every link in both rows
        indptr, indices = undirected(*graph.arcs(), graph.num_nodes)
    # METIS seeds the C library's generator, which treats 0 and 1 as the same seed.
    options = pymetis.Options(seed=seed % (2**31 - 1) + 1, ncuts=METIS_CUTS)
    adjacency = pymetis.CSRAdjacency(indptr.astype(np.int32), indices.astype(np.int32))
    membership = np.asarray(
        pymetis.part_graph(parts, adjacency=adjacency, options=options, recursive=True)[1]
    )
    return _fill_empty([np.flatnonzero(membership == part) for part in range(parts)])


def _fill_empty(parts: list[Nodes]) -> list[Nodes]:
    """Move a node of the largest part into each empty one: METIS leaves some on tiny graphs."""
    for index, part in enumerate(parts):
        if len(part) == 0:
            largest = max(range(len(parts)), key=lambda other: len(parts[other]))
            parts[index], parts[largest] = parts[largest][-1:], parts[largest][:-1]
    return parts


def _sample(part: Nodes, share: float, fewest: int, rng: np.random.Generator) -> Nodes:
    """Draw a random share of a part's nodes, rounded up; return them sorted."""
    size = min(len(part), max(fewest, math.ceil(share * len(part))))
    return np.sort(rng.choice(part, size, replace=False))


def _louvain(graph: Graph, clients: int, seed: int) -> list[Nodes]:
    """Pack Louvain communities into clients of similar size.

    A community larger than the mean client is first cut by METIS, so that few links are lost.
    """
    import networkx as nx  # here: its import takes longer than making a partition

    network = nx.Graph()
    network.add_nodes_from(range(graph.num_nodes))
    sources, targets = graph.arcs()
    network.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
    communities = nx.algorithms.community.louvain_communities(network, seed=seed)
    pieces: list[Nodes] = []
    for community in communities:
        nodes = np.array(sorted(community), np.int64)
        cuts = math.ceil(len(nodes) * clients / graph.num_nodes)
        pieces += [nodes[part] for part in metis_parts(graph.subgraph(nodes), cuts, seed)]
    bins: list[list[Nodes]] = [[] for _ in range(clients)]
    sizes = [0] * clients
    for piece in sorted(pieces, key=lambda nodes: (-len(nodes), nodes[0])):
        emptiest = sizes.index(min(sizes))
        bins[emptiest].append(piece)
        sizes[emptiest] += len(piece)
    return [np.sort(np.concatenate(pieces)) for pieces in bins]
