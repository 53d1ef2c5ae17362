"""Sketches of updates: groups that go different ways are found, others are not made up."""

import numpy as np
import pytest

from fedgt_server import update_sketch
from fedgt_server.update_sketch import UpdateSketch, group_directions

PARAMETERS = 50_000


def sketched(groups: list[int], signal: float, rounds: int = 1) -> UpdateSketch:
    """Return updates of a common direction, one of each group, and noise of each institution."""
    rng = np.random.default_rng(0)
    common, *wanted = rng.standard_normal((2 + max(groups), PARAMETERS))
    sketch = UpdateSketch(PARAMETERS)
    for _ in range(rounds):
        for index, group in enumerate(groups):
            noise = rng.standard_normal(PARAMETERS)
            change = 5 * common + signal * wanted[group] + noise
            sketch.receive(str(index), 100 * np.ones(PARAMETERS, np.float32))  # replaced
            sketch.receive(str(index), change.astype(np.float32))
        sketch.end_round()
    return sketch


def names(count: int) -> list[str]:
    return [str(index) for index in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_institutions_are_no_groups(count: int) -> None:
    groups = [index % 2 for index in range(count)]
    assert sketched(groups, 1.0).similarity(names(count)) is None


def test_institutions_that_only_differ_are_no_groups() -> None:
    assert sketched([0] * 10, 1.0).similarity(names(10)) is None
    assert sketched([0, 1] * 5, 0.1).similarity(names(10)) is None
    assert UpdateSketch(10).similarity(["a", "b", "c", "d"]) is None


@pytest.mark.parametrize("groups", [[0, 1] * 5, [0, 0, 1, 2] * 3, [0, 0, 0, 0, 1, 1]])
@pytest.mark.parametrize("many", [5, 1000])
def test_groups_are_found(groups: list[int], many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_sketch, "_MANY", many)
    found = sketched(groups, 1.0, rounds=3).similarity(names(len(groups)))
    assert found is not None
    alike = np.equal.outer(groups, groups)
    assert found[alike].min() > 0.9
    assert found[~alike].max() < 0.1


def test_groups_that_were_found_are_lost_less_easily() -> None:
    weak = sketched([0, 1] * 5, 0.33)
    assert weak.similarity(names(10)) is None
    assert weak.similarity(names(10), before=True) is not None
    nobody = sketched([0] * 10, 1.0)
    assert nobody.similarity(names(10), before=True) is None


def test_an_institution_that_has_not_answered_yet_is_in_no_group() -> None:
    sketch = sketched([0, 1] * 5, 1.0)
    found = sketch.similarity([*names(10), "z"])
    assert found is not None
    assert np.isfinite(found).all()


def test_equal_vectors_have_no_directions() -> None:
    assert group_directions(np.zeros((6, 8))) is None


def test_a_sketch_adds_up_every_parameter_once() -> None:
    """Of two updates that differ in one parameter, one sum differs, by that parameter."""
    sketch, change = UpdateSketch(1000), np.ones(1000, np.float32)
    sketch.receive("a", change)
    change[7] += 5.0
    sketch.receive("b", change)
    sketch.end_round()
    difference = sketch.sums["b"] - sketch.sums["a"]
    assert sorted(np.abs(difference).tolist())[-2:] == [0.0, 5.0]
