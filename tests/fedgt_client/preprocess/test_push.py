"""PPR by forward push in large components, against the dense inverse."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from fedgt_client.graph import Graph
from fedgt_client.preprocess.ppr import personalised_pagerank
from fedgt_client.preprocess.top_k import Pool
from tests.fedgt_client.graphs import directed_graph, with_weights
from tests.fedgt_client.hub_graphs import (
    chain,
    cliques,
    flat_social,
    grid,
    hubs_and_communities,
    linked,
    star,
)
from tests.fedgt_client.preprocess.test_ppr import dense_ppr, off_diagonal, unfolded

pytestmark = pytest.mark.slow  # numba compiles for seconds

FEW = 16

GRAPHS: dict[str, Callable[[], Graph]] = {
    "hubs": lambda: hubs_and_communities(2000),
    "hubs, sparse": lambda: hubs_and_communities(2000, seed=1, least=2),
    "hubs, no communities": lambda: hubs_and_communities(1800, seed=2, outside=1.0),
    "hubs, large communities": lambda: hubs_and_communities(
        2000, seed=3, least=8, community=500, outside=0.05
    ),
    "hubs, closed communities": lambda: hubs_and_communities(
        2000, seed=4, least=14, community=500, outside=0.01
    ),
    "flat": lambda: flat_social(1500),
    "flat, dense": lambda: flat_social(1500, seed=1, mean=80, outside=0.8),
    "chain": lambda: chain(1500),
    "grid": lambda: grid(40),
    "star": lambda: star(1500),
    "complete": lambda: cliques(1200),
    "two cliques": lambda: cliques(600, 2, joined=True),
    "many cliques": lambda: cliques(15, 100, joined=True),
}


def shares(graph: Graph, pool: Pool) -> NDArray[np.float64]:
    """Return the share of the exact strongest 16's mass that the chosen 16 have, shape (n,)."""
    exact = off_diagonal(dense_ppr(graph, 0.15)).T
    best = np.sort(exact, axis=1)[:, -FEW:].sum(axis=1)
    chosen = pool[0][:, :FEW]
    values = np.take_along_axis(exact, np.maximum(chosen, 0), axis=1)
    return np.asarray(np.where(chosen >= 0, values, 0.0).sum(axis=1)[best > 0] / best[best > 0])


@pytest.mark.parametrize("name", GRAPHS)
def test_the_strongest_are_found(name: str) -> None:
    graph = GRAPHS[name]()
    share = shares(graph, personalised_pagerank(graph))
    assert share.mean() >= 0.98
    if name.startswith("hubs"):
        assert (share >= 0.98).mean() >= 0.99


@pytest.mark.parametrize(("spread", "least"), [(0.5, 0.99), (1.5, 0.99), (3.0, 0.97)])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_strongest_by_weight_are_found(name: str, spread: float, least: float) -> None:
    graph = with_weights(GRAPHS[name](), spread)
    assert shares(graph, personalised_pagerank(graph)).mean() >= least


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
def test_equal_weights_are_as_none(unit: float) -> None:
    graph = GRAPHS["hubs"]()
    even = replace(graph, weights=np.full(len(graph.indices), unit, np.float32))
    (found, values), (plain, expected) = map(personalised_pagerank, (even, graph))
    assert (found == plain).mean() > 0.999  # values that are equal but for rounding change places
    assert values == pytest.approx(expected, rel=1e-4)


def test_weights_of_many_orders_of_magnitude_keep_the_contract() -> None:
    graph = with_weights(GRAPHS["hubs, sparse"](), 12.0)
    neighbours, weights = personalised_pagerank(graph)
    assert (np.diff(weights) <= 0).all()
    assert ((neighbours >= 0) == (weights > 0)).all()


@pytest.mark.parametrize("name", ["hubs", "hubs, sparse", "flat", "grid", "star", "complete"])
@pytest.mark.parametrize("change", [lambda graph: graph, with_weights], ids=["plain", "weighted"])
def test_values_are_near(name: str, change: Callable[[Graph], Graph]) -> None:
    """The model sees their logarithms."""
    graph = change(GRAPHS[name]())
    neighbours, weights = personalised_pagerank(graph)
    exact = np.take_along_axis(dense_ppr(graph, 0.15).T, np.maximum(neighbours, 0), axis=1)
    known = (neighbours >= 0)[:, :FEW]
    error = np.abs(np.log(weights[:, :FEW][known] / exact[:, :FEW][known]))
    assert error.mean() < 0.05
    assert error.max() < 0.5


def test_a_finer_tolerance_is_nearer() -> None:
    graph = hubs_and_communities(1500, seed=4)
    exact = off_diagonal(dense_ppr(graph, 0.15))
    pools = [personalised_pagerank(graph, tolerance=t, size=1500) for t in (1e-3, 5e-5, 1e-7)]
    coarse, middle, fine = (np.abs(unfolded(pool) - exact).max() for pool in pools)
    assert fine < 1e-5 < middle < coarse


def test_pool_keeps_the_contract() -> None:
    graph = hubs_and_communities(1500, seed=5, least=1.5)
    neighbours, weights = personalised_pagerank(graph)
    assert (np.diff(weights) <= 0).all()
    assert ((neighbours >= 0) == (weights > 0)).all()
    assert not (neighbours == np.arange(1500)[:, None]).any()
    for row in neighbours:
        kept = row[row >= 0]
        assert len(np.unique(kept)) == len(kept)


def test_leaves_of_a_star_are_equal_and_in_order() -> None:
    neighbours, weights = personalised_pagerank(star(1500), size=8)
    assert neighbours[0].tolist() == list(range(1, 9))
    assert neighbours[5].tolist() == [0, 1, 2, 3, 4, 6, 7, 8]
    assert len(set(weights[5, 1:].tolist())) == 1


def test_one_core_or_two(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = hubs_and_communities(3000, seed=6)
    two = personalised_pagerank(graph)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    one = personalised_pagerank(graph)
    assert np.array_equal(one[0], two[0])
    assert np.array_equal(one[1], two[1])


@pytest.mark.parametrize("change", [lambda graph: graph, with_weights], ids=["plain", "weighted"])
def test_directed_arcs_are_walked_one_way(change: Callable[[Graph], Graph]) -> None:
    graph = change(directed_graph(1500, 6000, 0))
    pool = personalised_pagerank(graph)
    assert shares(graph, pool).mean() >= 0.98
    assert (unfolded(pool)[dense_ppr(graph, 0.15) == 0] == 0).all()


def test_a_large_component_beside_small_ones() -> None:
    """Node ids of the two kinds alternate."""
    large = hubs_and_communities(1200, seed=7, least=6)
    sources, targets = large.arcs()
    total = 2 * large.num_nodes
    ends = np.arange(1, total, 4)
    graph = linked(np.append(2 * sources, ends), np.append(2 * targets, ends + 2), total)
    neighbours, weights = personalised_pagerank(graph)
    alone = personalised_pagerank(large)
    assert np.array_equal(neighbours[::2], np.where(alone[0] >= 0, 2 * alone[0], -1))
    assert np.array_equal(weights[::2], alone[1])
    assert neighbours[1, :2].tolist() == [3, -1]
    assert weights[1, 0] == pytest.approx(dense_ppr(cliques(2), 0.15)[0, 1])
