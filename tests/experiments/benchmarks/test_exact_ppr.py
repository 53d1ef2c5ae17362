"""The oracle of the preparation's quality, on cases computed by hand."""

import numpy as np
import pytest

from experiments.benchmarks.exact_ppr import carried_mass, dense_ppr
from experiments.benchmarks.graphs import make_graph
from fedgt_client.preprocess.ppr import personalised_pagerank

# Column i is node i's distribution: what node 0 has of the others is 0.3, 0.2 and 0.1.
EXACT = np.array(
    [
        [0.4, 0.3, 0.3, 0.0],
        [0.3, 0.4, 0.0, 0.0],
        [0.2, 0.2, 0.4, 0.0],
        [0.1, 0.1, 0.3, 1.0],
    ]
)
BEST = np.array([[1, 2, 3], [0, 2, 3], [3, 0, -1], [-1, -1, -1]], np.int32)


def test_the_exact_choice_carries_everything() -> None:
    assert carried_mass(EXACT, BEST, 2) == pytest.approx([1, 1, 1, 1])


def test_a_worse_choice_carries_less() -> None:
    worse = BEST.copy()
    worse[0] = [1, 3, 2]  # 0.3 + 0.1 of 0.3 + 0.2
    worse[2] = [3, -1, -1]  # 0.3 of 0.3 + 0.3
    assert carried_mass(EXACT, worse, 2) == pytest.approx([0.8, 1, 0.5, 1])


def test_the_node_itself_carries_nothing() -> None:
    itself = BEST.copy()
    itself[0] = [0, 1, 2]
    assert carried_mass(EXACT, itself, 2)[0] == pytest.approx(0.6)


def test_more_nodes_than_there_are() -> None:
    assert carried_mass(EXACT, BEST, 16) == pytest.approx([1, 1, 1, 1])


def test_the_exact_ppr_of_two_linked_nodes() -> None:
    # A walker alternates: at home with ν Σ (1 − ν)^2k = ν / (1 − (1 − ν)²) = 1 / (2 − ν).
    exact = dense_ppr(make_graph("chain", 2), 0.5)
    assert exact == pytest.approx(np.array([[2, 1], [1, 2]]) / 3)


@pytest.mark.parametrize("kind", ["communities", "social", "chain"])
def test_every_distribution_sums_to_one(kind: str) -> None:
    assert dense_ppr(make_graph(kind, 300), 0.15).sum(axis=0) == pytest.approx(1.0)


def test_a_fine_tolerance_is_as_good_as_exact() -> None:
    graph = make_graph("communities", 300)
    exact = dense_ppr(graph, 0.15)
    fine, _ = personalised_pagerank(graph, nu=0.15, tolerance=1e-7, size=64)
    assert carried_mass(exact, fine, 16).min() > 0.999
    by_id = np.tile(np.arange(16, dtype=np.int32), (300, 1))
    assert carried_mass(exact, by_id, 16).mean() < 0.5
