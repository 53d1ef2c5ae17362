"""Generated graphs: wrong names, sizes, hubs, and the same graph for the same seed."""

import numpy as np
import pytest

from experiments.benchmarks.graphs import KINDS, cora_sized, make_graph, social, with_data
from fedgt_client.graph import Graph
from shared.errors import FedGTError


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(FedGTError, match="kind is 'ring', expected one of"):
        make_graph("ring", 100)


@pytest.mark.parametrize("kind", KINDS)
def test_links_are_undirected_without_loops_or_duplicates(kind: str) -> None:
    graph = make_graph(kind, 1000)
    sources, targets = graph.arcs()
    assert graph.num_nodes == 1000
    assert (sources != targets).all()
    arcs = set(zip(sources.tolist(), targets.tolist(), strict=True))
    assert len(arcs) == len(sources)
    assert {(target, source) for source, target in arcs} == arcs


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_makes_the_same_graph(kind: str) -> None:
    assert make_graph(kind, 500, 3).digest() == make_graph(kind, 500, 3).digest()


@pytest.mark.parametrize("kind", ["communities", "social"])
def test_another_seed_makes_another_graph(kind: str) -> None:
    assert make_graph(kind, 500, 3).digest() != make_graph(kind, 500, 4).digest()


def largest_degree(graph: Graph) -> int:
    return int(np.diff(graph.indptr).max())


@pytest.mark.parametrize("nodes", [2000, 9500])
def test_hubs_of_a_social_graph_link_to_nearly_a_tenth_of_its_nodes(nodes: int) -> None:
    graph = social(nodes)
    assert 0.08 * nodes < largest_degree(graph) <= nodes // 10
    assert 18 < 2 * graph.num_edges / nodes < 26


def test_communities_have_hubs_and_hold_most_links() -> None:
    graph = make_graph("communities", 10_000)
    assert 60_000 < graph.num_edges < 80_000
    degrees = np.diff(graph.indptr)
    assert degrees.max() > 30 * np.median(degrees)
    # Two neighbours of a node are often linked: over a random graph of this size hardly ever.
    nodes = np.random.default_rng(0).integers(0, 10_000, 200)
    linked = [_closed(graph, int(node)) for node in nodes]
    assert np.mean(linked) > 10 * degrees.mean() / 10_000


def _closed(graph: Graph, node: int) -> float:
    """Return the share of pairs of a node's neighbours that are linked."""
    neighbours = graph.indices[graph.indptr[node] : graph.indptr[node + 1]]
    if len(neighbours) < 2:
        return 0.0
    linked = sum(
        np.isin(graph.indices[graph.indptr[other] : graph.indptr[other + 1]], neighbours).sum()
        for other in neighbours
    )
    return float(linked) / (len(neighbours) * (len(neighbours) - 1))


def test_a_chain_is_a_path() -> None:
    assert np.diff(make_graph("chain", 5).indptr).tolist() == [1, 2, 2, 2, 1]


def test_data_of_the_asked_size_and_split() -> None:
    graph = with_data(make_graph("chain", 2000), features=12, classes=3, train=0.05)
    assert graph.dense_features().shape == (2000, 12)
    assert set(graph.labels.tolist()) == {0, 1, 2}
    assert 60 < graph.train.sum() < 140
    assert (graph.train.astype(int) + graph.val + graph.test == 1).all()


def test_the_graph_of_coras_size() -> None:
    graph = cora_sized()
    assert (graph.num_nodes, graph.num_features, graph.num_classes) == (2485, 1433, 7)
    assert 4500 < graph.num_edges < 5600
    assert set(np.unique(graph.dense_features()).tolist()) == {0.0, 1.0}
