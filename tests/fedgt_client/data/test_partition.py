import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from fedgt_client.csr import csr_from_arcs
from fedgt_client.data.partition import (
    SETTINGS,
    institution_graphs,
    partition_dataset,
    partition_graph,
    with_conflict,
)
from shared.errors import FedGTError
from tests.fedgt_client.small_graphs import random_graph, ring, small_graph


def test_unknown_setting() -> None:
    with pytest.raises(FedGTError, match="setting is 'metis', expected one of disjoint, overlap"):
        partition_graph(ring(10), 2, "metis", 0)


@pytest.mark.parametrize("clients", [0, -3])
@pytest.mark.parametrize("setting", SETTINGS)
def test_no_clients(clients: int, setting: str) -> None:
    with pytest.raises(FedGTError, match=f"clients is {clients}, expected 1 or more"):
        partition_graph(ring(10), clients, setting, 0)


@pytest.mark.parametrize("setting", SETTINGS)
def test_more_clients_than_nodes(setting: str) -> None:
    with pytest.raises(FedGTError, match="clients is 15, but the graph has only 10 nodes"):
        partition_graph(ring(10), 15, setting, 0)


def test_overlap_takes_multiples_of_five() -> None:
    with pytest.raises(FedGTError, match="clients is 12, expected a multiple of 5"):
        partition_graph(ring(100), 12, "overlap", 0)


def test_negative_seed() -> None:
    with pytest.raises(FedGTError, match="seed is -1"):
        partition_graph(ring(10), 2, "disjoint", -1)


@pytest.mark.parametrize("setting", ["disjoint", "louvain"])
@pytest.mark.parametrize("clients", [1, 2, 7, 20])
def test_every_node_at_one_client(setting: str, clients: int) -> None:
    parts = partition_graph(random_graph(300, 900, seed=0), clients, setting, seed=0)
    assert len(parts) == clients
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(300))
    for part in parts:
        assert (np.diff(part) > 0).all()
    sizes = [len(part) for part in parts]
    assert max(sizes) < 1.7 * 300 / clients


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("links", [0, 10, 400])
@pytest.mark.parametrize("nodes", [5, 6, 23])
def test_no_client_is_empty(setting: str, links: int, nodes: int) -> None:
    graph = random_graph(nodes, links, seed=1)
    for clients in (5,) if setting == "overlap" else range(1, nodes + 1):
        parts = partition_graph(graph, clients, setting, seed=0)
        assert len(parts) == clients
        assert min(len(part) for part in parts) > 0


def test_few_links_are_cut() -> None:
    cliques = [(a + base, b + base) for base in (0, 10, 20) for a in range(10) for b in range(a)]
    graph = small_graph(30, [*cliques, (0, 10), (10, 20)])
    parts = partition_graph(graph, 3, "disjoint", seed=0)
    assert sorted(part.tolist() for part in parts) == [
        list(range(base, base + 10)) for base in (0, 10, 20)
    ]
    assert sorted(part.tolist() for part in partition_graph(graph, 3, "louvain", seed=0)) == sorted(
        part.tolist() for part in parts
    )


def test_overlap_samples_halves_of_parts() -> None:
    graph = random_graph(201, 600, seed=5)
    halves = partition_graph(graph, 10, "overlap", seed=3)
    assert len(halves) == 10
    families = [set(np.concatenate(halves[start : start + 5])) for start in (0, 5)]
    assert not families[0] & families[1]
    # Five halves of a part miss 1 node in 32 of it.
    assert len(families[0] | families[1]) > 180
    assert {len(half) for half in halves} <= {50, 51}
    assert len({tuple(half) for half in halves}) == 10
    for half in halves:
        assert (np.diff(half) > 0).all()


def test_unbalanced_keeps_ten_to_all_percent() -> None:
    graph = random_graph(1000, 4000, seed=6)
    whole = partition_graph(graph, 10, "disjoint", seed=4)
    kept = partition_graph(graph, 10, "unbalanced", seed=4)
    shares = [len(few) / len(part) for few, part in zip(kept, whole, strict=True)]
    assert all(set(few) <= set(part) for few, part in zip(kept, whole, strict=True))
    assert min(shares) >= 0.1
    assert max(shares) <= 1
    assert max(shares) - min(shares) > 0.4


def test_unbalanced_keeps_a_few_nodes() -> None:
    parts = partition_graph(ring(60), 10, "unbalanced", seed=0)
    assert min(len(part) for part in parts) >= 5


def test_in_conflict_every_second_client_means_the_next_class() -> None:
    graph = replace(ring(40), labels=np.arange(40) % 3, class_names=("a", "b", "c"))
    members = partition_graph(graph, 4, "conflict", seed=3)
    found = with_conflict(graph, members)
    for index, nodes in enumerate(members):
        assert found.labels[nodes].tolist() == ((nodes + index % 2) % 3).tolist()


def test_banks_in_conflict_are_of_one_kind() -> None:
    banks = institution_graphs("consortium", clients=4, setting="conflict", seed=3)
    shares = [np.bincount(bank.labels, minlength=4) / bank.num_nodes for bank in banks]
    # What is 'retail' to the first is 'business' to the second.
    assert [int(share.argmax()) for share in shares] == [0, 1, 0, 1]


def test_in_conflict_an_unknown_label_stays_unknown() -> None:
    graph = replace(ring(6), labels=np.array([0, -1, 1, -1, 0, 1]), class_names=("a", "b"))
    found = with_conflict(graph, [np.array([0, 1, 2]), np.array([3, 4, 5])])
    assert found.labels.tolist() == [0, -1, 1, -1, 1, 0]
    assert graph.labels.tolist() == [0, -1, 1, -1, 0, 1]


def test_directed_graphs_are_divided_too() -> None:
    graph = ring(40)
    indptr, indices = csr_from_arcs(np.arange(40), (np.arange(40) + 1) % 40, 40)
    one_way = replace(graph, indptr=indptr, indices=indices, directed=True)
    for setting in ("disjoint", "louvain"):
        assert sum(len(part) for part in partition_graph(one_way, 4, setting, seed=0)) == 40


@pytest.mark.parametrize("setting", SETTINGS)
def test_seed_decides(setting: str) -> None:
    graph = random_graph(400, 1200, seed=8)
    runs = [partition_graph(graph, 5, setting, seed) for seed in (0, 0, 1)]
    first, again, other = ([part.tolist() for part in run] for run in runs)
    assert first == again
    assert first != other


@pytest.mark.slow
def test_another_process_gets_the_same_partition() -> None:
    script = (
        "import hashlib; from fedgt_client.data.partition import partition_dataset\n"
        "for setting in ('disjoint', 'overlap', 'louvain', 'unbalanced'):\n"
        "    graph, members = partition_dataset('consortium', clients=5, setting=setting, seed=3)\n"
        "    print(hashlib.sha256(graph.digest().encode() + str([m.tolist() for m in members])"
        ".encode()).hexdigest())"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0].split())) == 4


@pytest.mark.parametrize("setting", SETTINGS)
def test_institutions_share_one_split(setting: str) -> None:
    graph, members = partition_dataset("consortium", clients=5, setting=setting, seed=0)
    parts = institution_graphs("consortium", clients=5, setting=setting, seed=0)
    for nodes, part in zip(members, parts, strict=True):
        assert np.array_equal(part.train, graph.train[nodes])
        assert np.array_equal(part.test, graph.test[nodes])
    train = 0.6 if setting == "louvain" else 0.2
    assert graph.train.mean() == pytest.approx(train, abs=1e-3)
    assert (graph.train ^ graph.val ^ graph.test).all()
