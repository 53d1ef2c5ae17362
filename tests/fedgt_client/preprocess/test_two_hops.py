"""The compiled sampler of neighbourhoods."""

import numpy as np
import pytest

from fedgt_client.graph import Graph
from fedgt_client.preprocess import two_hops
from fedgt_client.preprocess.graphsage import neighbourhood_pool
from fedgt_client.preprocess.two_hops import two_hop_sample
from tests.fedgt_client.graphs import dense_adjacency
from tests.fedgt_client.hub_graphs import hubs_and_communities, star
from tests.fedgt_client.small_graphs import random_graph, small_graph

pytestmark = pytest.mark.slow  # numba compiles for seconds


def distances(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Return who is one link away, and who is two."""
    near = dense_adjacency(graph) > 0
    far = (near.astype(int) @ near > 0) & ~near & ~np.eye(graph.num_nodes, dtype=bool)
    return near, far


def test_nobody_near() -> None:
    assert two_hop_sample(small_graph(3, []), size=4, seed=0).tolist() == [[-1] * 4] * 3


@pytest.mark.parametrize("listed", [0, 2], ids=["drawn", "listed"])
def test_near_ones_come_first_and_stay(listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two_hops, "_PATHS_PER_PAIR", listed)
    graph = random_graph(60, 200, 0)
    near, far = distances(graph)
    sample = two_hop_sample(graph, size=12, seed=1)
    for node, row in enumerate(sample):
        kept = row[row >= 0]
        assert len(np.unique(kept)) == len(kept) == min(12, (near | far)[node].sum())
        assert (near | far)[node, kept].all()
        direct = near[node, kept].tolist()
        assert direct == sorted(direct, reverse=True)
        assert sum(direct) == min(12, near[node].sum())
    assert sample.tolist() == two_hop_sample(graph, size=12, seed=1).tolist()
    assert sample.tolist() != two_hop_sample(graph, size=12, seed=2).tolist()


@pytest.mark.parametrize("listed", [0, 2], ids=["drawn", "listed"])
def test_all_nodes_two_links_away_are_equally_likely(
    listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_hops, "_PATHS_PER_PAIR", listed)
    graph = hubs_and_communities(300, seed=2, least=3)
    near, far = distances(graph)
    node = int(np.flatnonzero(near.sum(axis=1) == 3)[0])
    draws, size = 2000, 8
    counts = np.zeros(300)
    for seed in range(draws):
        counts[two_hop_sample(graph, size=size, seed=seed)[node]] += 1
    assert (counts[near[node]] == draws).all()
    others, drawn = far[node].sum(), size - 3
    expected = draws * drawn / others
    chi_square = ((counts[far[node]] - expected) ** 2 / expected).sum() / (1 - drawn / others)
    # Four standard deviations above the mean of chi-square.
    assert chi_square < others - 1 + 4 * np.sqrt(2 * (others - 1))


def test_leaves_of_a_large_star_see_each_other() -> None:
    """9 million paths of two links: the compiled sampler is chosen."""
    neighbours, weights = neighbourhood_pool(star(3000), size=16, seed=0)
    assert (neighbours[1:, 0] == 0).all()
    assert (neighbours >= 0).all()
    assert (weights == 1).all()
    assert len(np.unique(neighbours[1:, 1:])) > 2900
    assert not (neighbours == np.arange(3001)[:, None]).any()
