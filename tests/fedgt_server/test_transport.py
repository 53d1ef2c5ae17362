"""Optimal transport between global nodes, equation 7."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog

from fedgt_server.transport import (
    PLANS,
    Floats,
    centred,
    denoised,
    hungarian,
    identity,
    sinkhorn,
    spread,
    transport_similarity,
    unit_rows,
)
from tests.fedgt_server.plans import transport


def random_nodes(clients: int, count: int, width: int, seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal((clients, count, width))


def optimum(cosine: Floats) -> float:
    """Return the value of the linear programme over doubly stochastic plans."""
    count = len(cosine)
    rows = np.kron(np.eye(count), np.ones(count))
    columns = np.kron(np.ones(count), np.eye(count))
    solved = linprog(-cosine.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.ones(2 * count))
    assert solved.fun is not None
    return -float(solved.fun)


def test_zero_vector_stays_zero() -> None:
    vectors = np.array([[3.0, 4.0], [0.0, 0.0]])
    assert unit_rows(vectors).tolist() == [[0.6, 0.8], [0.0, 0.0]]


def test_empty_and_single_client_have_no_spread() -> None:
    assert spread(np.eye(1)) == (0.0, 0.0)
    similarity, plans = transport(random_nodes(1, 4, 3, 0), "hungarian")
    assert similarity.tolist() == [[1.0]]
    assert plans[0, 0].tolist() == np.eye(4).tolist()


def test_dead_global_nodes_do_not_make_nan() -> None:
    similarity, _ = transport(np.zeros((3, 4, 5)), "hungarian")
    assert similarity.tolist() == np.eye(3).tolist()


def test_spread_leaves_the_diagonal_out() -> None:
    similarity = np.array([[1.0, 0.2, 0.4], [0.2, 1.0, 0.6], [0.4, 0.6, 1.0]])
    mean, deviation = spread(similarity)
    assert mean == pytest.approx(0.4)
    assert deviation == pytest.approx(np.std([0.2, 0.4, 0.6]))


def test_centred_removes_what_all_have_in_common() -> None:
    nodes = random_nodes(3, 4, 5, 0)
    assert centred(nodes + 7.0) == pytest.approx(centred(nodes))
    assert centred(nodes).mean(axis=(0, 1)) == pytest.approx(np.zeros(5))
    # The clients keep their differences.
    assert centred(nodes)[0] - centred(nodes)[1] == pytest.approx(nodes[0] - nodes[1])


def test_the_permutation_is_used_for_the_score() -> None:
    """Two clients with the same two nodes in opposite order are the same client."""
    nodes = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    similarity, plans = transport(nodes, "hungarian")
    assert similarity[0, 1] == pytest.approx(1.0)
    assert plans[0, 1].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    # What the diagonal would say.
    assert transport(nodes, "none")[0][0, 1] == pytest.approx(0.0)


def test_plan_brings_the_other_client_into_this_ones_order() -> None:
    nodes = random_nodes(1, 6, 8, 3)[0]
    order = np.array([3, 0, 5, 1, 2, 4])
    _, plans = transport(np.stack([nodes, nodes[order]]), "hungarian")
    assert plans[0, 1] @ nodes[order] == pytest.approx(nodes)
    assert plans[1, 0] @ nodes == pytest.approx(nodes[order])


@settings(max_examples=25, deadline=None)
@given(count=st.integers(1, 6), seed=st.integers(0, 2**31))
def test_hungarian_equals_brute_force(count: int, seed: int) -> None:
    cosine = np.random.default_rng(seed).uniform(-1, 1, (count, count))
    rows = np.arange(count)
    best = max(cosine[rows, list(order)].sum() for order in permutations(range(count)))
    plan = hungarian(cosine)
    assert (plan * cosine).sum() == pytest.approx(best)
    assert set(np.unique(plan)) <= {0.0, 1.0}
    assert plan.sum(axis=0).tolist() == plan.sum(axis=1).tolist() == [1.0] * count


@settings(max_examples=15, deadline=None)
@given(count=st.integers(1, 7), seed=st.integers(0, 2**31))
def test_hungarian_equals_the_linear_programme(count: int, seed: int) -> None:
    cosine = np.random.default_rng(seed).uniform(-1, 1, (count, count))
    assert (hungarian(cosine) * cosine).sum() == pytest.approx(optimum(cosine))


DEGENERATE = {
    "all equal": np.full((4, 4), 0.5),
    "zero vectors": np.zeros((4, 4)),
    "two equal rows": np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3], [0.9, 0.1, 0.4]]),
    "ties": np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    "opposite": -np.eye(3),
    "one node": np.array([[-0.3]]),
}


@pytest.mark.parametrize("count", [1, 2, 10])
@pytest.mark.parametrize("kind", ["different", "rounded", "equal", "two alike"])
def test_many_at_once_are_as_good_as_one_by_one(count: int, kind: str) -> None:
    """Of many plans a compiled solver finds bijections of the same cost."""
    cosines = np.random.default_rng(count).uniform(-1, 1, (10_000, count, count))
    cosines = {
        "different": cosines,
        "rounded": np.round(cosines, 1),
        "equal": np.zeros_like(cosines),
        "two alike": cosines[:, [0, *range(count - 1)]],
    }[kind]
    plans = hungarian(cosines)
    assert (plans.sum(axis=1) == 1).all()
    assert (plans.sum(axis=2) == 1).all()
    single = hungarian(cosines[:500])
    value, of_single = ((found * cosines[:500]).sum(axis=(1, 2)) for found in (plans[:500], single))
    np.testing.assert_allclose(value, of_single, rtol=0, atol=1e-12)
    if kind == "different":
        assert np.array_equal(plans[:500], single)


@pytest.mark.parametrize("name", DEGENERATE)
def test_hungarian_of_degenerate_cosines_is_a_best_bijection(name: str) -> None:
    cosine = DEGENERATE[name]
    rows = np.arange(len(cosine))
    best = max(cosine[rows, list(order)].sum() for order in permutations(rows))
    plan = hungarian(cosine)
    assert (plan * cosine).sum() == pytest.approx(best)
    assert plan.sum(axis=0).tolist() == plan.sum(axis=1).tolist() == [1.0] * len(cosine)


def test_hungarian_of_many_is_scipys_of_each() -> None:
    cosines = np.random.default_rng(4).uniform(-1, 1, (3, 50, 10, 10))
    plans = hungarian(cosines)
    assert plans.shape == cosines.shape
    for cosine, plan in zip(cosines.reshape(-1, 10, 10), plans.reshape(-1, 10, 10), strict=True):
        value = cosine[linear_sum_assignment(cosine, maximize=True)].sum()
        assert (plan * cosine).sum() == pytest.approx(value, abs=1e-12)


def test_sinkhorn_of_many_is_that_of_each() -> None:
    """One that needs many iterations does not change one that is done."""
    cosines = np.random.default_rng(5).uniform(-1, 1, (6, 5, 5))
    cosines[2] = 0.0
    plans = sinkhorn(cosines, entropy=0.02)
    for cosine, plan in zip(cosines, plans, strict=True):
        assert plan.tolist() == sinkhorn(cosine, entropy=0.02).tolist()


@pytest.mark.parametrize(
    ("plan", "size"),
    [("hungarian", 1), ("hungarian", 3), ("hungarian", 4), ("none", 3), ("sinkhorn", 3)],
)
def test_blocks_do_not_change_the_transport(plan: str, size: int) -> None:
    nodes = random_nodes(7, 4, 5, 6)
    expected, expected_plans = transport(nodes, plan, size=7)
    similarity, plans = transport(nodes, plan, size=size)
    assert similarity == pytest.approx(expected, abs=1e-12)
    assert plans == pytest.approx(expected_plans, abs=1e-9)
    assert transport_similarity(nodes, plan) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=15, deadline=None)
@given(
    clients=st.integers(2, 5),
    count=st.integers(1, 5),
    seed=st.integers(0, 2**31),
    plan=st.sampled_from(sorted(PLANS)),
)
def test_similarity_is_symmetric_with_unit_diagonal(
    clients: int, count: int, seed: int, plan: str
) -> None:
    similarity, plans = transport(random_nodes(clients, count, 4, seed), plan)
    assert similarity.tolist() == similarity.T.tolist()
    assert np.diag(similarity).tolist() == [1.0] * clients
    assert np.abs(similarity).max() <= 1.0 + 1e-9
    assert plans == pytest.approx(plans.transpose(1, 0, 3, 2))


@pytest.mark.parametrize("plan", ["hungarian", "sinkhorn"])
def test_order_of_global_nodes_does_not_matter(plan: str) -> None:
    nodes, rng = random_nodes(4, 6, 5, 1), np.random.default_rng(2)
    shuffled = np.stack([client[rng.permutation(6)] for client in nodes])
    expected, _ = transport(nodes, plan)
    assert transport(shuffled, plan)[0] == pytest.approx(expected, abs=1e-9)
    assert transport(centred(shuffled), plan)[0] == pytest.approx(
        transport(centred(nodes), plan)[0], abs=1e-9
    )


def test_sinkhorn_is_doubly_stochastic() -> None:
    cosine = np.random.default_rng(0).uniform(-1, 1, (8, 8))
    plan = sinkhorn(cosine)
    assert plan.min() >= 0.0
    assert plan.sum(axis=1) == pytest.approx(np.ones(8))
    assert plan.sum(axis=0) == pytest.approx(np.ones(8), abs=2e-4)


@pytest.mark.parametrize("entropy", [0.2, 1.0])
def test_sinkhorn_meets_the_conditions_of_the_optimum(entropy: float) -> None:
    """Of all doubly stochastic plans the optimum alone has log T − cosine / entropy = a_k + b_l."""
    cosine = np.random.default_rng(1).uniform(-1, 1, (6, 6))
    plan = sinkhorn(cosine, entropy=entropy, tolerance=1e-12)
    assert plan.sum(axis=0) == pytest.approx(np.ones(6), abs=1e-9)
    duals = np.log(plan) - cosine / entropy
    mixed = duals - duals[:1] - duals[:, :1] + duals[0, 0]
    assert mixed == pytest.approx(np.zeros((6, 6)), abs=1e-8)

    def objective(t: Floats) -> float:
        return float((t * cosine).sum() - entropy * (t * np.log(t)).sum())

    uniform = np.full((6, 6), 1 / 6)
    for share in (0.01, 0.1, 0.5):
        assert objective(plan) > objective((1 - share) * plan + share * uniform)


def test_sinkhorn_tends_to_hungarian() -> None:
    cosine = np.random.default_rng(2).uniform(-1, 1, (6, 6))
    exact = hungarian(cosine)
    plans = [
        sinkhorn(cosine, entropy=entropy, tolerance=1e-5, iterations=20000)
        for entropy in (0.5, 0.05, 0.005)
    ]
    gaps = [np.abs(plan - exact).max() for plan in plans]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 1e-3
    assert (plans[-1] * cosine).sum() == pytest.approx(optimum(cosine), abs=1e-3)


def test_sinkhorn_does_not_underflow() -> None:
    cosine = np.array([[1.0, -1.0], [-1.0, 1.0]])
    plan = sinkhorn(cosine, entropy=1e-4)
    assert plan.tolist() == np.eye(2).tolist()


def test_identity_ignores_the_cosines() -> None:
    assert identity(np.array([[0.0, 1.0], [1.0, 0.0]])).tolist() == np.eye(2).tolist()


def test_denoised_restores_what_noise_takes() -> None:
    """Three clients in 400 dimensions: cosines of noisy nodes, scaled back, are the true ones."""
    rng = np.random.default_rng(0)
    common, own = rng.standard_normal((5, 400)), rng.standard_normal((3, 5, 400))
    clean = common + own
    noisy = clean + rng.laplace(0.0, 0.5, clean.shape)
    truth, _ = transport(clean, "hungarian")
    found, _ = transport(noisy, "hungarian")
    restored = denoised(found, noisy, 2 * 0.5**2)
    assert np.diag(restored).tolist() == [1.0, 1.0, 1.0]
    others = ~np.eye(3, dtype=bool)
    assert (found[others] < truth[others] - 0.05).all()
    assert restored[others] == pytest.approx(truth[others], abs=0.04)


def test_denoised_when_noise_drowns_everything() -> None:
    noisy = np.random.default_rng(0).laplace(0.0, 5.0, (3, 4, 8))
    similarity, _ = transport(noisy, "hungarian")
    restored = denoised(similarity, noisy, 2 * 6.0**2)
    assert np.isfinite(restored).all()
    assert (np.abs(restored) <= 1.0).all()
