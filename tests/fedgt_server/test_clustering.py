"""Dynamic time warping and minimum cuts, by hand and by trying everything."""

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


def test_two_and_equals() -> None:
    assert minimum_cut(np.ones((2, 2))) == ([1], [0])
    ours, theirs = minimum_cut(np.zeros((3, 3)))
    assert ours
    assert theirs
