"""Algorithm 1, online clustering."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedgt_client.model.global_nodes import GlobalNodes, update_global_nodes

# Two points near the first centre, one near the second.
POINTS = torch.tensor([[0.0, 1.0], [0.0, 3.0], [10.0, 0.0]])
CENTRES = torch.tensor([[0.0, -2.0], [8.0, 0.0]])
COUNTS = torch.tensor([4.0, 1.0])


def initial(
    *,
    sets: int = 3,
    count: int = 2,
    width: int = 4,
    momentum: float = 0.9,
    seed: int = 0,
) -> GlobalNodes:
    return GlobalNodes.initial(sets=sets, count=count, width=width, momentum=momentum, seed=seed)


def test_by_hand() -> None:
    """γ = 0.5; first centre: (4 · 0.5 · (0, −2) + 0.5 · (0, 4)) / (4 · 0.5 + 0.5 · 2)."""
    centres, counts = update_global_nodes(POINTS, CENTRES, COUNTS, 0.5)
    assert counts.tolist() == [3.0, 1.0]
    assert centres[0].tolist() == pytest.approx([0.0, -2 / 3])
    # Second: (1 · 0.5 · (8, 0) + 0.5 · (10, 0)) / (0.5 + 0.5).
    assert centres[1].tolist() == pytest.approx([9.0, 0.0])
    # What went in is as it was.
    assert CENTRES.tolist() == [[0.0, -2.0], [8.0, 0.0]]
    assert COUNTS.tolist() == [4.0, 1.0]


def test_with_the_paper_s_momentum() -> None:
    """γ = 0.9: c = 4 · 0.9 + 2 · 0.1 = 3.8, and (3.6 · (−2) + 0.1 · 4) / 3.8."""
    centres, counts = update_global_nodes(POINTS, CENTRES, COUNTS, 0.9)
    assert counts.tolist() == pytest.approx([3.8, 1.0])
    assert centres.tolist()[0] == pytest.approx([0.0, -6.8 / 3.8])
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
    counts = torch.tensor([3.0, 0.51])
    moved, counts = update_global_nodes(POINTS, centres, counts, 0.9)
    assert moved[1].tolist() == [10.0, 0.0]
    assert counts[1] == 1.0
    # Next time it serves that point, which leaves the first to its own.
    moved, counts = update_global_nodes(POINTS, moved, counts, 0.0)
    assert moved.tolist() == [[0.0, 2.0], [10.0, 0.0]]


def test_all_clusters_are_in_use_after_a_few_steps_and_none_starts_again_late() -> None:
    torch.manual_seed(0)
    groups = torch.randn(10, 16).repeat_interleave(20, dim=0) * 3
    points = groups + 0.1 * torch.randn_like(groups)
    nodes = initial(sets=1, count=10, width=16)
    steps = []
    for _ in range(100):
        nodes.update([points])
        steps.append(nodes.centres)
    jumps = [float((after - before).abs().max()) for before, after in pairwise(steps)]
    assert max(jumps[:10]) > 1.0
    assert max(jumps[30:]) < 0.1
    assert (nodes.counts > 0.5).all()


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
    nodes = initial(sets=1, count=count, width=3, momentum=momentum)
    for _ in range(60):
        nodes.update([torch.randn(points, 3) + 5])
    assert torch.isfinite(nodes.centres).all()
    assert (nodes.counts > 0).all()


def test_a_broken_node_does_not_spoil_the_others() -> None:
    broken = torch.tensor([[torch.nan, 0.0], [torch.inf, 0.0]])
    spoilt, clean = (
        GlobalNodes(CENTRES[None].clone(), COUNTS[None].clone(), 0.5) for _ in range(2)
    )
    spoilt.update([torch.cat([POINTS, broken])])
    clean.update([POINTS])
    assert spoilt.centres.tolist() == clean.centres.tolist()
    assert spoilt.counts.tolist() == clean.counts.tolist()
    spoilt.update([broken])
    assert spoilt.centres.tolist() == clean.centres.tolist()


def test_start_is_the_same_everywhere() -> None:
    one, other = initial(), initial()
    assert one.centres.shape == (3, 2, 4)
    assert one.centres.tolist() == other.centres.tolist()
    assert one.counts.tolist() == [[1.0, 1.0]] * 3
    assert initial(seed=1).centres.tolist() != one.centres.tolist()
    # It takes nothing from the chance that training uses.
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    initial()
    assert torch.rand(1) == expected


def test_a_set_for_every_boundary() -> None:
    nodes = initial(momentum=0.0)
    representations = [torch.randn(8, 4) + shift for shift in (0.0, 10.0, 20.0)]
    nodes.update(representations)
    assert not nodes.centres.requires_grad
    for shift, centres in zip((0.0, 10.0, 20.0), nodes.centres, strict=True):
        assert float(centres.mean()) == pytest.approx(shift, abs=2.0)


def test_a_single_set_follows_the_input() -> None:
    nodes = initial(sets=1, count=1, width=2, momentum=0.0)
    nodes.update([torch.ones(4, 2), torch.full((4, 2), 7.0)])
    assert nodes.centres.tolist() == [[[1.0, 1.0]]]


def test_none_stay_none() -> None:
    nodes = initial(count=0)
    nodes.update([torch.randn(5, 4)] * 3)
    assert nodes.centres.shape == (3, 0, 4)
    assert nodes.counts.shape == (3, 0)


@pytest.mark.parametrize("spoilt", [0, 3, 20])
def test_sets_at_once_are_updated_like_each_alone(spoilt: int) -> None:
    torch.manual_seed(0)
    points, centres = torch.randn(3, 20, 4), torch.randn(3, 5, 4)
    points[1, :spoilt] = torch.nan
    counts = torch.tensor([[1.0, 0.1, 3.0, 0.2, 9.0]]).repeat(3, 1)  # some die
    nodes = GlobalNodes(centres, counts, 0.9)
    nodes.update(list(points))
    for index in range(3):
        alone = update_global_nodes(points[index], centres[index], counts[index], 0.9)
        torch.testing.assert_close(nodes.centres[index], alone[0])
        torch.testing.assert_close(nodes.counts[index], alone[1])
