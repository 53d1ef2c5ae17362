"""Dynamic time warping and minimum cuts, by hand and by trying all cuts."""

from itertools import combinations

import numpy as np
import pytest

from fedgt_server.clustering import minimum_cut, warping_distances
from fedgt_server.transport import Floats


def test_warping_by_hand() -> None:
    """A bump that comes later costs nothing; a level costs its difference at every step."""
    series = np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0]])
    found = warping_distances(series)
    assert found[0, 1] == 0.0
    # 2 against 0, 0, 1, 0: 4 + 4 + 1 + 4 along the diagonal, and no way around.
    assert found[0, 2] == pytest.approx(13.0**0.5)
    assert found == pytest.approx(found.T)
    assert np.diag(found).tolist() == [0.0, 0.0, 0.0]


def test_warping_recurrence() -> None:
    """1, 3 and 2, 2: (1−2)² + (3−2)²."""
    assert warping_distances(np.array([[1.0, 3.0], [2.0, 2.0]]))[0, 1] == pytest.approx(2.0**0.5)


def cut_weight(similarity: Floats, side: tuple[int, ...]) -> float:
    rest = [i for i in range(len(similarity)) if i not in side]
    return float(similarity[np.ix_(list(side), rest)].sum())


@pytest.mark.parametrize("seed", range(8))
def test_no_cut_is_lighter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    similarity = rng.random((6, 6)) ** 3
    similarity += similarity.T
    ours, theirs = minimum_cut(similarity)
    assert sorted(ours + theirs) == list(range(6))
    lightest = min(
        cut_weight(similarity, side) for size in (1, 2, 3) for side in combinations(range(6), size)
    )
    assert cut_weight(similarity, tuple(ours)) == pytest.approx(lightest)


def test_two_clients() -> None:
    assert minimum_cut(np.ones((2, 2))) == ([1], [0])
    assert minimum_cut(np.zeros((2, 2))) == ([1], [0])


def test_groups_without_any_similarity_between_them() -> None:
    similarity = np.zeros((5, 5))
    similarity[np.ix_([0, 2, 4], [0, 2, 4])] = 1.0
    similarity[np.ix_([1, 3], [1, 3])] = 1.0
    assert sorted(minimum_cut(similarity)) == [[0, 2, 4], [1, 3]]


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_of_equal_cuts_the_same_one_is_returned(value: float) -> None:
    similarity = np.full((6, 6), value)
    first = minimum_cut(similarity)
    assert sorted(first[0] + first[1]) == list(range(6))
    assert first[0]
    assert first[1]
    assert all(minimum_cut(similarity.copy()) == first for _ in range(3))


def test_own_similarity_does_not_count() -> None:
    similarity = np.array([[9.0, 2.0, 1.0], [2.0, 9.0, 0.5], [1.0, 0.5, 9.0]])
    assert sorted(minimum_cut(similarity)) == [[0, 1], [2]]
