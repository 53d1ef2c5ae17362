"""Softmax weights and personalised averages, equation 8."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgt_server.aggregation import (
    personalised_global_nodes,
    personalised_models,
    softmax_weights,
)
from fedgt_server.transport import transport_blocks
from tests.fedgt_server.plans import transport

THREE = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, -0.5], [0.0, -0.5, 1.0]])


def test_three_clients_by_hand() -> None:
    """With τ = 2 the first row is (e², e¹, e⁰) over its sum, 11.107337..."""
    total = math.e**2 + math.e + 1
    weights = softmax_weights(THREE, 2.0)
    assert weights[0] == pytest.approx([math.e**2 / total, math.e / total, 1 / total])
    assert weights[0] == pytest.approx([0.66524096, 0.24472847, 0.09003057])
    models = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]], np.float32)
    # 0.66524096 · 1 + 0.24472847 · 2 + 0.09003057 · 4
    averaged = personalised_models(weights.astype(np.float32), models)
    assert averaged[0] == pytest.approx([1.51482018, 15.1482018], rel=1e-6)
    assert averaged.dtype == np.float32


@settings(max_examples=25, deadline=None)
@given(clients=st.integers(1, 6), tau=st.floats(0, 1e6), seed=st.integers(0, 2**31))
def test_rows_are_distributions(clients: int, tau: float, seed: int) -> None:
    similarity = np.random.default_rng(seed).uniform(-1, 1, (clients, clients))
    weights = softmax_weights(similarity, tau)
    assert weights.min() >= 0.0
    assert weights.sum(axis=1) == pytest.approx(np.ones(clients))


def test_tau_of_zero_is_the_plain_mean() -> None:
    assert softmax_weights(THREE, 0.0) == pytest.approx(np.full((3, 3), 1 / 3))


def test_large_tau_is_the_nearest_client() -> None:
    """A client is nearest to itself; among the others it is the one of largest similarity."""
    assert softmax_weights(THREE, 1e9).tolist() == np.eye(3).tolist()
    others = np.where(np.eye(3, dtype=bool), -np.inf, THREE)
    assert softmax_weights(others, 1e9).tolist() == [
        [0.0, 1.0, 0.0],
        [1.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
    ]


@pytest.mark.parametrize("tau", [0.0, 1.0, 5.0])
def test_left_out_clients_weigh_nothing(tau: float) -> None:
    similarity = THREE.copy()
    similarity[:2, 2] = -np.inf
    weights = softmax_weights(similarity, tau)
    assert weights[:2, 2].tolist() == [0.0, 0.0]
    assert weights[:2, :2] == pytest.approx(softmax_weights(THREE[:2, :2], tau))
    assert weights[2] == pytest.approx(softmax_weights(THREE, tau)[2])


def test_global_nodes_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    nodes = rng.standard_normal((4, 3, 5)).astype(np.float32)
    similarity, plans = transport(nodes.astype(np.float64), "sinkhorn")
    weights = softmax_weights(similarity, 5.0).astype(np.float32)
    expected = np.zeros((4, 3, 5))
    for i in range(4):
        for k in range(3):
            for j in range(4):
                for place in range(3):
                    expected[i, k] += weights[i, j] * plans[i, j, k, place] * nodes[j, place]
    blocks = transport_blocks(nodes.astype(np.float64), "sinkhorn")
    averaged = personalised_global_nodes(weights, nodes, blocks)
    assert averaged == pytest.approx(expected, abs=1e-6)
    assert averaged.dtype == np.float32


@pytest.mark.parametrize("plan", ["hungarian", "sinkhorn"])
def test_blocks_do_not_change_the_average_of_global_nodes(plan: str) -> None:
    rng = np.random.default_rng(2)
    nodes = rng.standard_normal((7, 3, 5)).astype(np.float32)
    weights = softmax_weights(rng.uniform(-1, 1, (7, 7)), 5.0).astype(np.float32)  # not symmetric
    points = nodes.astype(np.float64)
    whole = personalised_global_nodes(weights, nodes, transport_blocks(points, plan))
    parts = personalised_global_nodes(weights, nodes, transport_blocks(points, plan, size=3))
    assert parts == pytest.approx(whole, abs=1e-6)


def test_aligned_average_of_one_set_in_many_orders_is_that_set() -> None:
    """Averaged without alignment, the nodes would blur into each other."""
    rng = np.random.default_rng(1)
    nodes = rng.standard_normal((5, 8)).astype(np.float32)
    clients = np.stack([nodes[rng.permutation(5)] for _ in range(4)])
    similarity, _ = transport(clients.astype(np.float64), "hungarian")
    blocks = transport_blocks(clients.astype(np.float64), "hungarian")
    averaged = personalised_global_nodes(
        softmax_weights(similarity, 5.0).astype(np.float32), clients, blocks
    )
    assert averaged == pytest.approx(clients, abs=1e-6)
