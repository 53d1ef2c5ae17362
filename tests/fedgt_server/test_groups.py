"""Groups that ask for different things are found, others are not made up."""

import numpy as np
import pytest

from fedgt_server import groups as groups_of
from fedgt_server.groups import Gap, group_directions, group_similarity
from fedgt_server.transport import Floats

WIDTH = 4096
GAP = Gap(found=1.5, lost=1.1)


def asked(groups: list[int], signal: float, rounds: int = 1) -> Floats:
    """Return sums of a common direction, one of each group, and noise of each institution."""
    rng = np.random.default_rng(0)
    common, *wanted = rng.standard_normal((2 + max(groups), WIDTH))
    sums = np.zeros((len(groups), WIDTH))
    for _ in range(rounds):
        for index, group in enumerate(groups):
            sums[index] += 5 * common + signal * wanted[group] + rng.standard_normal(WIDTH)
    return sums


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_institutions_are_no_groups(count: int) -> None:
    assert group_similarity(asked([index % 2 for index in range(count)], 1.0), GAP) is None


def test_institutions_that_only_differ_are_no_groups() -> None:
    assert group_similarity(asked([0] * 10, 1.0), GAP) is None
    assert group_similarity(asked([0, 1] * 5, 0.1), GAP) is None
    assert group_similarity(np.zeros((4, WIDTH)), GAP) is None


@pytest.mark.parametrize("groups", [[0, 1] * 5, [0, 0, 1, 2] * 3, [0, 0, 0, 0, 1, 1]])
@pytest.mark.parametrize("many", [5, 1000])
def test_groups_are_found(groups: list[int], many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_of, "_MANY", many)
    found = group_similarity(asked(groups, 1.0, rounds=3), GAP)
    assert found is not None
    alike = np.equal.outer(groups, groups)
    assert found[alike].min() > 0.9
    assert found[~alike].max() < 0.1


def test_groups_that_were_found_are_lost_less_easily() -> None:
    weak = asked([0, 1] * 5, 0.33)
    assert group_similarity(weak, GAP) is None
    assert group_similarity(weak, GAP, before=True) is not None
    assert group_similarity(asked([0] * 10, 1.0), GAP, before=True) is None


def test_who_has_asked_for_nothing_is_in_no_group() -> None:
    sums = np.concatenate([asked([0, 1] * 5, 1.0), np.zeros((2, WIDTH))])
    found = group_similarity(sums, GAP)
    assert found is not None
    assert found[-2:].tolist() == np.eye(12)[-2:].tolist()
    assert found[:, -2:].tolist() == np.eye(12)[:, -2:].tolist()
    # By themselves they are none either.
    assert group_similarity(np.concatenate([asked([0] * 4, 1.0), sums[-2:]]), GAP) is None


@pytest.mark.parametrize("count", [4, 6, 10, 20])
@pytest.mark.parametrize("groups", [1, 2])
def test_one_whose_sum_is_long_makes_no_groups_and_hides_none(count: int, groups: int) -> None:
    """It asks for the same in every round, or answers more often; its direction is its own."""
    truly = [index % groups for index in range(count)]
    sums = asked(truly, 1.0, rounds=3)
    without = group_similarity(sums[1:], GAP)
    sums[0] = 100 * np.random.default_rng(1).standard_normal(WIDTH)
    found = group_similarity(sums, GAP)
    assert (found is None) == (without is None) == (groups == 1 or count == 4)
    if found is not None and without is not None:
        np.testing.assert_allclose(found[1:, 1:], without, atol=1e-9)
        assert not found[0, 1:].any()


def test_two_who_ask_for_the_same_are_a_group() -> None:
    found = group_similarity(asked([0, 0, 0, 0, 0, 1, 1], 1.0, rounds=3), GAP)
    assert found is not None
    assert found[5, 6] > 0.9 > 0.1 > found[0, 5]


def test_equal_vectors_have_no_directions() -> None:
    assert group_directions(np.zeros((6, 8)), GAP.found) is None
