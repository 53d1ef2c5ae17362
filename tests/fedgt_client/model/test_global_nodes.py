"""Algorithm 1, online clustering."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgt_client.model.global_nodes import GlobalNodes, seed_centres, update_global_nodes

# Two points near the first centre, one near the second.
POINTS = torch.tensor([[0.0, 1.0], [0.0, 3.0], [10.0, 0.0]])
CENTRES = torch.tensor([[0.0, 0.0], [8.0, 0.0]])
COUNTS = torch.tensor([4.0, 1.0])


def test_by_hand() -> None:
    """γ = 0.5. First centre: (4 · 0.5 · (0, 0) + 0.5 · (0, 4)) / (4 · 0.5 + 0.5 · 2) = (0, 2/3)."""
    centres, counts = update_global_nodes(POINTS, CENTRES, COUNTS, 0.5)
    assert counts.tolist() == [3.0, 1.0]
    assert centres[0].tolist() == pytest.approx([0.0, 2 / 3])
    # Second: (1 · 0.5 · (8, 0) + 0.5 · (10, 0)) / (0.5 + 0.5).
    assert centres[1].tolist() == pytest.approx([9.0, 0.0])
    # What went in is as it was.
    assert CENTRES.tolist() == [[0.0, 0.0], [8.0, 0.0]]
    assert COUNTS.tolist() == [4.0, 1.0]


def test_with_the_paper_s_momentum() -> None:
    """γ = 0.9: c = 4 · 0.9 + 2 · 0.1 = 3.8, and 0.1 · 4 / 3.8."""
    centres, counts = update_global_nodes(POINTS, CENTRES, COUNTS, 0.9)
    assert counts.tolist() == pytest.approx([3.8, 1.0])
    assert centres.tolist()[0] == pytest.approx([0.0, 0.4 / 3.8])
    assert centres.tolist()[1] == pytest.approx([8.2, 0.0])


def test_momentum_one_keeps_all() -> None:
    centres, counts = update_global_nodes(POINTS, CENTRES, COUNTS, 1.0)
    assert centres.tolist() == CENTRES.tolist()
    assert counts.tolist() == COUNTS.tolist()


def test_momentum_zero_is_a_step_of_k_means() -> None:
    centres, counts = update_global_nodes(POINTS, CENTRES, COUNTS, 0.0)
    assert centres.tolist() == [[0.0, 2.0], [10.0, 0.0]]
    assert counts.tolist() == [2.0, 1.0]


def test_no_points_change_nothing() -> None:
    centres, counts = CENTRES, COUNTS
    for _ in range(200):
        centres, counts = update_global_nodes(POINTS[:0], centres, counts, 0.5)
    assert centres.tolist() == CENTRES.tolist()
    assert counts.tolist() == COUNTS.tolist()


def test_dead_cluster_starts_again_where_it_is_needed() -> None:
    """The second centre is nobody's nearest; the third point is the worst served."""
    centres = torch.tensor([[0.0, 2.0], [500.0, 500.0]])
    counts = torch.tensor([3.0, 0.011])
    moved, counts = update_global_nodes(POINTS, centres, counts, 0.9)
    assert moved[1].tolist() == [10.0, 0.0]
    assert counts[1] == 1.0
    # Next time it serves that point, which leaves the first to its own.
    moved, counts = update_global_nodes(POINTS, moved, counts, 0.0)
    assert moved.tolist() == [[0.0, 2.0], [10.0, 0.0]]


def test_more_dead_clusters_than_points() -> None:
    moved, counts = update_global_nodes(POINTS[:1], torch.full((4, 2), 9.0), torch.zeros(4), 0.0)
    assert torch.isfinite(moved).all()
    assert (counts > 0).all()


@settings(max_examples=15, deadline=None)
@given(
    points=st.integers(1, 12),
    count=st.integers(1, 6),
    momentum=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_never_nan(points: int, count: int, momentum: float, seed: int) -> None:
    torch.manual_seed(seed)
    nodes = GlobalNodes.seeded([torch.randn(points, 3)], count, momentum)
    for _ in range(60):
        nodes.update([torch.randn(points, 3) + 5])
    assert torch.isfinite(nodes.centres).all()
    assert (nodes.counts > 0).all()


def test_a_broken_node_does_not_spoil_the_others() -> None:
    broken = torch.tensor([[torch.nan, 0.0], [torch.inf, 0.0]])
    seeded = GlobalNodes.seeded([torch.cat([broken, POINTS])], 3, 0.5)
    assert torch.isfinite(seeded.centres).all()
    assert seeded.counts.tolist() == [[1.0, 1.0, 1.0]]
    clean = GlobalNodes(seeded.centres, seeded.counts, 0.5)
    seeded.update([torch.cat([POINTS, broken])])
    clean.update([POINTS])
    assert seeded.centres.tolist() == clean.centres.tolist()
    assert seeded.counts.tolist() == clean.counts.tolist()


def test_all_nodes_broken() -> None:
    nodes = GlobalNodes.seeded([torch.full((3, 2), torch.nan)], 2, 0.5)
    assert nodes.centres.tolist() == [[[0.0, 0.0], [0.0, 0.0]]]
    nodes.update([POINTS])
    assert torch.isfinite(nodes.centres).all()
    assert nodes.centres.abs().sum() > 0


def test_seeds_are_points_spread_out() -> None:
    torch.manual_seed(0)
    groups = torch.randn(3, 20, 4) * 0.01 + torch.tensor([0.0, 50.0, 100.0])[:, None, None]
    centres = seed_centres(groups.reshape(60, 4), 3)
    assert sorted(round(float(c.mean()) / 50) for c in centres) == [0, 1, 2]


def test_fewer_points_than_centres() -> None:
    centres = seed_centres(POINTS[:2], 5)
    assert centres.shape == (5, 2)
    assert {tuple(c) for c in centres.tolist()} == {(0.0, 1.0), (0.0, 3.0)}
    assert seed_centres(POINTS[:1], 3).tolist() == [[0.0, 1.0]] * 3
    assert seed_centres(POINTS, 0).shape == (0, 2)


def test_a_set_for_every_boundary() -> None:
    representations = [torch.randn(8, 4) + shift for shift in (0.0, 10.0, 20.0)]
    nodes = GlobalNodes.seeded(representations, 2, 0.9)
    assert nodes.centres.shape == (3, 2, 4)
    assert nodes.counts.tolist() == [[4.0, 4.0]] * 3
    nodes.update(representations)
    for shift, centres in zip((0.0, 10.0, 20.0), nodes.centres, strict=True):
        assert float(centres.mean()) == pytest.approx(shift, abs=2.0)
    assert nodes.counts.sum(dim=1).tolist() == pytest.approx([8.0] * 3)


def test_a_single_set_follows_the_input() -> None:
    nodes = GlobalNodes.seeded([torch.zeros(4, 2)], 1, 0.0)
    nodes.update([torch.ones(4, 2), torch.full((4, 2), 7.0)])
    assert nodes.centres.tolist() == [[[1.0, 1.0]]]


def test_none_has_no_nodes_and_stays() -> None:
    nodes = GlobalNodes.none(2, 4, torch.zeros(1))
    nodes.update([torch.randn(5, 4)] * 3)
    assert nodes.centres.shape == (3, 0, 4)
