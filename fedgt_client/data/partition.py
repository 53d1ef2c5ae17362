"""Dividing one graph among clients, as the paper does (Section 5.1 and its appendices)."""

import math

import numpy as np
import pymetis
from numpy.typing import NDArray

from fedgt_client.data.streams import Stream
from fedgt_client.graph import Graph, undirected
from shared.errors import FedGTError

Nodes = NDArray[np.int64]

SETTINGS = ("disjoint", "overlap", "louvain", "unbalanced")
SAMPLES_PER_PART = 5  # overlapping clients that share a METIS part
SMALLEST_SHARE = 0.1  # of its METIS part that an unbalanced client keeps
METIS_CUTS = 10  # attempts of which METIS keeps the one that loses fewest links
FEWEST_NODES = 5  # that an unbalanced client keeps, where its part has them


def partition(graph: Graph, clients: int, setting: str, seed: int) -> list[Nodes]:
    """The node ids of every client, sorted.

    Parameters
    ----------
    graph : Graph
        The whole graph, n nodes.
    clients : int
        How many clients, 1..n; a multiple of 5 for ``overlap``.
    setting : str
        ``disjoint``: METIS parts, every node at one client.
        ``overlap``: METIS into clients / 5 parts, each sampled 5 times at half its nodes; clients
        5i..5i+4 stem from part i.
        ``louvain``: communities, merged (or cut, where too large) to clients of similar size.
        ``unbalanced``: a random 10-100 % of each METIS part.
    seed : int
        The same seed gives the same clients, in any process.
    """
    check_partition(clients, setting, seed)
    if clients > graph.num_nodes:
        raise FedGTError(f"clients is {clients}, but the graph has only {graph.num_nodes} nodes")
    rng = np.random.default_rng([seed, Stream.PARTITION])
    if setting == "overlap":
        parts = metis(graph, clients // SAMPLES_PER_PART, seed)
        return [_sample(part, 0.5, 1, rng) for part in parts for _ in range(SAMPLES_PER_PART)]
    if setting == "louvain":
        return _louvain(graph, clients, seed)
    parts = metis(graph, clients, seed)
    if setting == "unbalanced":
        shares = rng.uniform(SMALLEST_SHARE, 1.0, clients)
        pairs = zip(parts, shares, strict=True)
        return [_sample(part, share, FEWEST_NODES, rng) for part, share in pairs]
    return parts


def check_partition(clients: int, setting: str, seed: int) -> None:
    """Refuse a request that no graph could satisfy, before any graph is loaded."""
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


def metis(graph: Graph, parts: int, seed: int) -> list[Nodes]:
    """METIS parts of similar size with few links between them; none is empty.

    Recursive bisection, best of ten cuts: of the configurations compared it comes closest to the
    paper's missing links and heterogeneity over all datasets (``fedgt_client/data/README.md``).
    """
    if parts == 1:
        return [np.arange(graph.num_nodes)]
    indptr, indices = graph.indptr, graph.indices
    if graph.directed:  # METIS takes every link in both rows
        indptr, indices = undirected(*graph.arcs(), graph.num_nodes)
    # METIS seeds the C library's generator, to which 0 and 1 are the same seed.
    options = pymetis.Options(seed=seed % (2**31 - 1) + 1, ncuts=METIS_CUTS)
    adjacency = pymetis.CSRAdjacency(indptr.astype(np.int32), indices.astype(np.int32))
    membership = np.asarray(
        pymetis.part_graph(parts, adjacency=adjacency, options=options, recursive=True)[1]
    )
    return _fill_empty([np.flatnonzero(membership == part) for part in range(parts)])


def _fill_empty(parts: list[Nodes]) -> list[Nodes]:
    """Give each empty part a node of the then largest one; METIS can leave some on tiny graphs."""
    for index, part in enumerate(parts):
        if len(part) == 0:
            largest = max(range(len(parts)), key=lambda other: len(parts[other]))
            parts[index], parts[largest] = parts[largest][-1:], parts[largest][:-1]
    return parts


def _sample(part: Nodes, share: float, fewest: int, rng: np.random.Generator) -> Nodes:
    """A random share of a part's nodes, rounded up, sorted."""
    size = min(len(part), max(fewest, math.ceil(share * len(part))))
    return np.sort(rng.choice(part, size, replace=False))


def _louvain(graph: Graph, clients: int, seed: int) -> list[Nodes]:
    """Louvain communities packed into clients of similar size.

    A community above the mean size of a client is first cut by METIS, so that it loses few links.
    """
    import networkx as nx  # only here: it takes longer to import than a partition to make

    network = nx.Graph()
    network.add_nodes_from(range(graph.num_nodes))
    sources, targets = graph.arcs()
    network.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
    communities = nx.algorithms.community.louvain_communities(network, seed=seed)
    pieces: list[Nodes] = []
    for community in communities:
        nodes = np.array(sorted(community), np.int64)
        cuts = math.ceil(len(nodes) * clients / graph.num_nodes)
        pieces += [nodes[part] for part in metis(graph.subgraph(nodes), cuts, seed)]
    bins: list[list[Nodes]] = [[] for _ in range(clients)]
    sizes = [0] * clients
    for piece in sorted(pieces, key=lambda nodes: (-len(nodes), nodes[0])):
        emptiest = sizes.index(min(sizes))
        bins[emptiest].append(piece)
        sizes[emptiest] += len(piece)
    return [np.sort(np.concatenate(pieces)) for pieces in bins]
