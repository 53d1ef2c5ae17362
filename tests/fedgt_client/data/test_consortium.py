import numpy as np
import pytest
from numpy.typing import NDArray

from fedgt_client.data import partition
from fedgt_client.data.catalog import CATALOG, load_dataset
from fedgt_client.data.consortium import CLASSES, DEFAULT_BANKS, FEATURES, KINDS, generate
from fedgt_client.data.partition import institution_graphs, partition_dataset
from fedgt_client.data.stats import heterogeneity, partition_stats
from fedgt_client.graph import Graph
from shared.errors import FedGTError


def test_wrong_numbers() -> None:
    with pytest.raises(FedGTError, match="banks is 0"):
        generate(0, 0)
    with pytest.raises(FedGTError, match="seed is -1"):
        generate(3, -1)


@pytest.mark.parametrize("banks", [1, 2, 3, 6, 25])
def test_any_number_of_banks(banks: int) -> None:
    graph, bank = generate(banks, 0)
    sizes = np.bincount(bank, minlength=banks)
    assert len(bank) == graph.num_nodes
    assert sizes.min() >= 150
    assert sizes.max() <= 250
    assert np.isfinite(graph.dense_features()).all()
    assert graph.num_features == len(FEATURES) == len(set(FEATURES)) == 32
    assert graph.class_names == CLASSES


def test_seed_decides() -> None:
    first, again, other = (generate(4, seed)[0].digest() for seed in (5, 5, 6))
    assert first == again
    assert first != other


def test_all_banks_are_slices_of_one_generated_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    generated: list[int] = []

    def count(banks: int, seed: int) -> tuple[Graph, NDArray[np.int64]]:
        generated.append(banks)
        return generate(banks, seed)

    monkeypatch.setattr(partition, "generate", count)
    institution_graphs("consortium", clients=6, setting="disjoint", seed=3)
    assert generated == [6]


def test_catalog_states_its_size() -> None:
    graph = load_dataset("consortium")
    stated = CATALOG["consortium"]
    assert (graph.num_nodes, graph.num_edges) == (stated.nodes, stated.edges)
    assert (graph.num_classes, graph.num_features) == (stated.classes, stated.features)
    assert not (graph.train | graph.val | graph.test).any()
    assert graph.digest() == generate(DEFAULT_BANKS, 0)[0].digest()


def test_institutions_are_the_banks() -> None:
    graph, bank = generate(6, 2)
    whole, members = partition_dataset("consortium", clients=6, setting="disjoint", seed=2)
    assert [nodes.tolist() for nodes in members] == [
        np.flatnonzero(bank == index).tolist() for index in range(6)
    ]
    assert np.array_equal(whole.indices, graph.indices)


def test_links_between_banks_are_lost() -> None:
    stats = partition_stats(*partition_dataset("consortium", clients=6, setting="disjoint", seed=0))
    graph = load_dataset("consortium")
    assert 0.1 < stats.missing_links / graph.num_edges < 0.3


@pytest.mark.parametrize("seed", range(3))
def test_banks_of_a_kind_have_similar_labels(seed: int) -> None:
    graph, bank = generate(6, seed)
    counts = np.array(
        [np.bincount(graph.labels[bank == index], minlength=4) for index in range(6)], np.float64
    )
    kinds = len(KINDS)
    within = max(heterogeneity(counts[kind::kinds]) for kind in range(kinds))
    assert within < 0.5 * heterogeneity(counts)
    assert (counts > 0).all()


def test_links_favour_the_same_class() -> None:
    graph, _ = generate(6, 0)
    sources, targets = graph.arcs()
    alike = (graph.labels[sources] == graph.labels[targets]).mean()
    assert 0.45 < alike < 0.7


@pytest.mark.parametrize(
    ("setting", "clients"), [("overlap", 10), ("louvain", 4), ("unbalanced", 8), ("disjoint", 1)]
)
def test_other_settings(setting: str, clients: int) -> None:
    parts = institution_graphs("consortium", clients=clients, setting=setting, seed=1)
    assert len(parts) == clients
    assert min(part.num_nodes for part in parts) > 0


def test_largest_component_keeps_the_banks() -> None:
    whole, members = partition_dataset(
        "consortium", clients=6, setting="disjoint", seed=0, largest_component=True
    )
    assert sum(len(nodes) for nodes in members) == whole.num_nodes
    assert whole.num_nodes <= CATALOG["consortium"].nodes
    assert min(len(nodes) for nodes in members) > 100
