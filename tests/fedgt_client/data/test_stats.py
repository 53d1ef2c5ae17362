import numpy as np
import pytest

from fedgt_client.data.paper_statistics import CLIENT_COUNTS, paper_statistics
from fedgt_client.data.partition import partition_dataset
from fedgt_client.data.stats import heterogeneity, partition_stats
from tests.fedgt_client.small_graphs import random_graph, small_graph


def test_heterogeneity_of_three_clients_by_hand() -> None:
    # Cosines: 0-1 is 0, 0-2 and 1-2 are 1/sqrt(2), each with itself 1.
    counts = np.array([[5.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
    assert heterogeneity(counts) == pytest.approx(1 - (3 + 4 / np.sqrt(2)) / 9)


def test_heterogeneity_of_equal_clients_is_zero() -> None:
    assert heterogeneity(np.array([[1.0, 2.0], [10.0, 20.0]])) == pytest.approx(0.0)
    assert heterogeneity(np.array([[1.0, 2.0]])) == pytest.approx(0.0)


def test_clients_without_labels_do_not_count() -> None:
    assert heterogeneity(np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])) == pytest.approx(0.5)
    assert heterogeneity(np.zeros((2, 3))) == 0.0


def test_heterogeneity_does_not_depend_on_order() -> None:
    counts = np.random.default_rng(0).integers(0, 9, (6, 4)).astype(np.float64)
    assert heterogeneity(counts[::-1]) == pytest.approx(heterogeneity(counts))
    assert heterogeneity(counts[:, ::-1]) == pytest.approx(heterogeneity(counts))


def test_missing_links_by_hand() -> None:
    # A circle of six in three pairs: three links stay, three are lost.
    graph = small_graph(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)], [0, 0, 1, 1, 0, -1])
    stats = partition_stats(graph, [np.array([0, 1]), np.array([2, 3]), np.array([4, 5])])
    assert stats.missing_links == 3
    assert [client.edges for client in stats.clients] == [1, 1, 1]
    assert [client.labels for client in stats.clients] == [(2, 0), (0, 2), (1, 0)]
    assert stats.heterogeneity == pytest.approx(4 / 9)


def test_a_link_held_by_two_clients_is_not_missing() -> None:
    graph = small_graph(3, [(0, 1), (1, 2)])
    stats = partition_stats(graph, [np.array([0, 1]), np.array([0, 1])])
    assert stats.missing_links == 1
    assert [client.nodes for client in stats.clients] == [2, 2]


def test_edges_are_those_of_the_subgraphs() -> None:
    graph = random_graph(50, 150, seed=2)
    members = np.array_split(np.random.default_rng(0).permutation(50), 4)
    stats = partition_stats(graph, members)
    assert [client.edges for client in stats.clients] == [
        graph.subgraph(nodes).num_edges for nodes in members
    ]
    assert stats.missing_links == graph.num_edges - sum(client.edges for client in stats.clients)


def test_permuting_nodes_changes_nothing() -> None:
    graph = random_graph(40, 100, seed=4)
    order = np.random.default_rng(1).permutation(40)
    place = np.argsort(order)
    members = [np.arange(0, 15), np.arange(15, 40)]
    turned = [place[nodes] for nodes in members]
    assert partition_stats(graph.subgraph(order), turned) == partition_stats(graph, members)


def test_values_the_paper_does_not_print() -> None:
    for dataset, setting, clients in (
        ("consortium", "disjoint", 10),
        ("cora", "louvain", 10),
        ("cora", "unbalanced", 10),
        ("cora", "disjoint", 7),
        ("cora", "overlap", 5),
    ):
        figures = paper_statistics(dataset, setting, clients)
        assert (figures.missing_links, figures.heterogeneity) == (None, None)


def test_values_the_paper_prints() -> None:
    figures = paper_statistics("ogbn-arxiv", "overlap", 50)
    assert (figures.missing_links, figures.heterogeneity) == (457954, 0.687)
    figures = paper_statistics("cora", "disjoint", 5)
    assert (figures.missing_links, figures.heterogeneity) == (403, 0.574)


# Cells of the paper that no partition of ours meets: docs/data.md says why.
LINKS_APART = {
    ("amazon-photo", "disjoint", 5),
    ("amazon-photo", "overlap", 10),
    ("citeseer", "disjoint", 5),
}


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("setting", ["disjoint", "overlap"])
@pytest.mark.parametrize(
    "dataset", ["cora", "citeseer", "pubmed", "amazon-computers", "amazon-photo"]
)
def test_paper_tables(dataset: str, setting: str) -> None:
    for clients in CLIENT_COUNTS[setting]:
        ours = partition_stats(
            *partition_dataset(dataset, clients=clients, setting=setting, seed=0)
        )
        paper = paper_statistics(dataset, setting, clients)
        assert ours.heterogeneity == pytest.approx(paper.heterogeneity, abs=0.05)
        if (dataset, setting, clients) not in LINKS_APART:
            assert ours.missing_links == pytest.approx(paper.missing_links, rel=0.15)


@pytest.mark.slow
@pytest.mark.usefixtures("real_data")
def test_two_cells_of_the_paper_are_exchanged() -> None:
    disjoint, overlap = (
        partition_stats(
            *partition_dataset("amazon-photo", clients=clients, setting=setting, seed=0)
        )
        for setting, clients in (("disjoint", 5), ("overlap", 10))
    )
    printed = (
        paper_statistics("amazon-photo", "disjoint", 5).missing_links,
        paper_statistics("amazon-photo", "overlap", 10).missing_links,
    )
    assert (overlap.missing_links, disjoint.missing_links) == pytest.approx(printed, rel=0.06)
