"""GCFL+ at the coordinator: a cluster really splits."""

import numpy as np

from fedgt_server.methods.gcfl import GCFL
from shared.config import RunConfig
from shared.wire import GRADIENT_NORM, NUM_EXAMPLES, Arrays, Update

INITIAL: Arrays = {"weight": np.zeros(4, np.float32), "bias": np.zeros(2, np.float32)}
NAMES = ("a", "b", "c", "d")


def round_of(number: int, *, apart: bool) -> dict[str, Update]:
    """Let a and b pull one way with rising gradients, c and d the other with falling ones."""
    updates = {}
    for index, name in enumerate(NAMES):
        side = 1.0 if index < 2 or not apart else -1.0
        norm = 1.0 + 0.1 * number if index < 2 else 5.0 - 0.1 * number
        arrays = {key: np.full_like(array, 0.1 * side) for key, array in INITIAL.items()}
        updates[name] = Update(name, arrays, {NUM_EXAMPLES: 5.0, GRADIENT_NORM: norm})
    return updates


def play(method: GCFL, first: int, last: int, *, apart: bool = True) -> list[list[str]]:
    groups: list[list[str]] = []
    for number in range(first, last + 1):
        groups = method.aggregate(round_of(number, apart=apart)).facts["clusters"]
    return groups


def begun() -> GCFL:
    method = GCFL(RunConfig.build({"robust": False}))
    method.begin(INITIAL)
    return method


def test_who_pulls_apart_is_split_after_twenty_rounds() -> None:
    method = begun()
    assert play(method, 1, 20) == [["a", "b", "c", "d"]]
    # Opposite and of equal length: nobody got anywhere.
    assert method.message("a")["weight"].tolist() == [0.0] * 4
    groups = play(method, 21, 21)
    assert sorted(groups) == [["a", "b"], ["c", "d"]]
    play(method, 22, 25)
    assert (method.message("b")["weight"] > 0.4).all()
    assert (method.message("c")["bias"] < -0.4).all()
    # Two are never split.
    assert sorted(play(method, 26, 60)) == [["a", "b"], ["c", "d"]]


def test_who_agrees_stays_together() -> None:
    method = begun()
    assert play(method, 1, 40, apart=False) == [["a", "b", "c", "d"]]
    assert np.allclose(method.message("z")["bias"], 4.0)


def test_weights_within_a_cluster_are_by_examples() -> None:
    method = begun()
    updates = round_of(1, apart=True)
    updates["a"].metrics[NUM_EXAMPLES] = 25.0
    method.aggregate(updates)  # (25 + 5 − 5 − 5) / 40 of 0.1
    assert np.allclose(method.message("d")["weight"], 0.05)


def test_missing_members_are_neither_lost_nor_compared() -> None:
    method = begun()
    play(method, 1, 20)
    few = {name: update for name, update in round_of(21, apart=True).items() if name != "d"}
    # Of those who answered, c pulls the other way; d stays where it was.
    assert sorted(method.aggregate(few).facts["clusters"]) == [["a", "b", "d"], ["c"]]


def test_a_restored_coordinator_splits_in_the_same_round() -> None:
    method, other = begun(), GCFL(RunConfig.build())
    play(method, 1, 18)
    other.load_state_dict(method.state_dict())
    assert play(other, 19, 30) == play(method, 19, 30)
    for name in NAMES:
        assert other.message(name)["bias"].tobytes() == method.message(name)["bias"].tobytes()
