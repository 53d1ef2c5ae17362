"""Sketches of updates: sums of all rounds, and how far they point the same way."""

import numpy as np
import pytest

from fedgt_server.update_sketch import WIDTH, UpdateSketch, stacked


def test_what_is_replaced_or_refused_is_not_added_up() -> None:
    sketch, change = UpdateSketch(1000), np.ones(1000, np.float32)
    for name in ("a", "b", "c"):
        sketch.receive(name, 100 * change)
    sketch.receive("a", change)
    sketch.scale("b", 0.01)
    sketch.scale("c", 0.0)
    sketch.end_round()
    assert sketch.sums.keys() == {"a", "b"}
    assert sketch.sums["b"] == pytest.approx(sketch.sums["a"])
    assert stacked(sketch.sums, ["a", "c"]).shape == (2, WIDTH)
    assert not stacked(sketch.sums, ["c"]).any()


def test_inner_products_of_sketches_are_those_of_the_sums_of_all_rounds() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.standard_normal((2, 50_000)).astype(np.float32)
    sketch = UpdateSketch(len(one))
    for first, second in ((one, one), (other, -other)):
        sketch.receive("a", first)
        sketch.receive("b", second)
        sketch.end_round()
    sums = stacked(sketch.sums, ["a", "b"]) / len(one) ** 0.5
    # (one + other) and (one - other): at a right angle, up to the error of sketches.
    assert sums @ sums.T == pytest.approx(2 * np.eye(2), abs=0.1)


def test_a_sketch_adds_up_every_parameter_once() -> None:
    """Of two updates that differ in one parameter, one sum differs, by that parameter."""
    sketch, change = UpdateSketch(1000), np.ones(1000, np.float32)
    sketch.receive("a", change)
    change[7] += 5.0
    sketch.receive("b", change)
    sketch.end_round()
    difference = sketch.sums["b"] - sketch.sums["a"]
    assert sorted(np.abs(difference).tolist())[-2:] == [0.0, 5.0]
