"""Limits on lengths and directions of updates, by hand."""

import numpy as np
import pytest

from deploy.settings import resolve_settings
from fedgt_server import robust
from fedgt_server.methods.fedgt import _PROBATION, FedGT
from fedgt_server.robust import (
    UpdateAgreement,
    Wary,
    allowed_length,
    capped_counts,
    length,
    medians_of_others,
    row_blocks,
    trusted_weights,
)
from shared.config import Scalar
from shared.wire import GLOBAL_NODES, KEPT_OWN, Update


def test_length_does_not_overflow() -> None:
    arrays = {"a": np.full((2, 2), 1e30, np.float32), "b": np.full(5, 3e38, np.float32)}
    assert length(arrays, ["a", "missing"]) == pytest.approx(2e30)
    assert length({}, ["a"]) == 0.0


def test_medians_of_others() -> None:
    found = medians_of_others({"a": 1.0, "b": 2.0, "c": 3.0, "d": 100.0})
    assert found == {"a": 3.0, "b": 3.0, "c": 2.0, "d": 2.0}
    assert medians_of_others({"a": 7.0}) == {"a": 7.0}


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([], 4.0),  # twice the others'
        ([100.0], 4.0),  # its own history never makes it more
        ([1.5, 1.5, 9.0], 3.0),  # twice its own
        ([0.1], 2.0),  # but not less than what others send
    ],
)
def test_allowed_length(history: list[float], expected: float) -> None:
    assert allowed_length(2.0, history) == pytest.approx(expected)


ALL = slice(0, 5)


def test_who_points_against_whom() -> None:
    updates = np.array([[1.0, 0.0], [2.0, 1.0], [-1.0, 0.0], [0.0, 5.0], [0.0, 0.0]])
    assert UpdateAgreement(updates @ updates.T).rows(ALL).tolist() == [
        [1, 1, 0, 0, 0],
        [1, 1, 0, 1, 0],
        [0, 0, 1, 0, 0],
        [0, 1, 0, 1, 0],
        [0, 0, 0, 0, 1],
    ]


def test_earlier_rounds_count_as_much_as_this_one() -> None:
    now = np.array([[1.0, 0.1, -0.1], [0.1, 1.0, 0.1], [-0.1, 0.1, 1.0]])
    sums = np.array([[2.0, 0.0, 0.0], [-0.4, 1.96**0.5, 0.0], [0.2, 0.0, 0.96**0.5]])
    found = UpdateAgreement(now, sums.astype(np.float32)).rows(slice(0, 3))
    assert found.tolist() == [[1, 0, 1], [0, 1, 1], [1, 1, 1]]


def test_copies_of_an_update_count_as_one() -> None:
    updates = np.array([[1.0, 0.0, 0.2], [1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0]])
    found = UpdateAgreement(updates @ updates.T).rows(slice(0, 4))
    assert found[0].tolist() == [1, 0.5, 0.5, 1]
    assert found[1].tolist() == [1, 1, 0.5, 1]


def test_rows_by_themselves_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    updates = rng.standard_normal((7, 20))
    sums = rng.standard_normal((7, 20)).astype(np.float32)
    updates[4] = updates[2]
    weights = rng.dirichlet(np.ones(7), 7).astype(np.float32)
    whole = UpdateAgreement(updates @ updates.T, sums).rows(slice(0, 7))
    monkeypatch.setattr(robust, "_ROWS", 3)
    some = UpdateAgreement(updates @ updates.T, sums)
    assert [rows.stop for rows in row_blocks(7)] == [3, 6, 7]
    for rows in row_blocks(7):
        np.testing.assert_array_equal(some.rows(rows), whole[rows])
        found = trusted_weights(weights[rows], whole[rows], rows.start)
        np.testing.assert_allclose(found, trusted_weights(weights, whole)[rows])


def test_weights_are_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some are wary, one is absent: what rows are computed together makes no difference."""
    rng = np.random.default_rng(0)
    changes = {name: rng.standard_normal(2) for name in "abcdefg"}
    found = []
    for rows in (256, 3):
        monkeypatch.setattr(robust, "_ROWS", rows)
        server = method(begun=False, **{"compare-updates": False})
        for number in range(_PROBATION + 2):
            updates = {name: change(list(moved)) for name, moved in changes.items()}
            for name in "befg" if number == _PROBATION else "":
                updates[name].metrics[KEPT_OWN] = 1.0  # from now on these are wary
            if number == _PROBATION + 1:
                del updates["d"]
            weights = np.array(server.aggregate(updates).facts["weights"])
        found.append(weights)
    np.testing.assert_allclose(found[1], found[0], atol=1e-4)
    left_out = (found[0] == 0).sum(axis=1)
    assert left_out[[1, 4, 5, 6]].min() > left_out[[0, 2]].max() == 1


def test_nobody_weighs_more_than_the_institution_itself() -> None:
    weights = np.array([[0.2, 0.7, 0.1], [0.3, 0.4, 0.3], [0.1, 0.4, 0.5]], np.float32)
    agreement = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]], float)
    found = trusted_weights(weights, agreement)
    assert np.allclose(found, [[0.4, 0.4, 0.2], [0.0, 4 / 7, 3 / 7], [0.0, 0.0, 1.0]])


def test_counts_of_examples() -> None:
    assert capped_counts(np.array([10.0, 10.0, 1e9])).tolist() == [10.0, 10.0, 30.0]
    assert capped_counts(np.array([1e9])).tolist() == [1e9]


def test_a_second_complaint_counts_longer() -> None:
    wary = Wary()
    assert not wary
    spans = []
    for _ in range(5):
        wary.complain("a")
        rounds = 0
        while "a" in wary:
            assert wary
            wary = Wary(wary.state_dict())  # as a checkpoint does
            wary.next_round()
            rounds += 1
        spans.append(rounds)
    assert spans == [10, 20, 40, 80, 80]
    assert "b" not in wary


# --- personalised averages ------------------------------------------------------------------------


def change(value: list[float], *, kept_own: bool = False) -> Update:
    arrays = {
        "weight": np.array(value, np.float32),
        GLOBAL_NODES: np.ones((1, 2, 4), np.float32),
    }
    return Update("", arrays, {KEPT_OWN: 1.0} if kept_own else {})


def method(*, begun: bool = True, **changed: Scalar) -> FedGT:
    """Make a server half; one that has begun is past the rounds in which nobody is trusted."""
    values: dict[str, Scalar] = {
        "ldp": "off",
        "hidden": 4,
        "heads": 1,
        "global-nodes": 2,
        "global-node-sets": "input",
        "aggregation": "mean",
    }
    made = FedGT(resolve_settings(values | changed))
    made.begin({"weight": np.zeros(2, np.float32)})
    if begun:
        made.load_state_dict(made.state_dict() | {"rounds/": np.array(_PROBATION)})
    return made


def weight(of: FedGT, name: str) -> list[float]:
    return [round(float(value), 4) for value in of.message(name)["weight"]]


def test_agreeing_only() -> None:
    server, off = method(**{"agreeing-only": True}), method()
    updates = {"a": change([1, 0]), "b": change([1, 0]), "c": change([-4, 0])}
    for each in (server, off):
        each.aggregate(updates)
    assert weight(server, "a") == weight(server, "b") == [1.0, 0.0]
    assert weight(server, "c") == [-4.0, 0.0]
    assert weight(off, "a") == [-0.6667, 0.0]


def test_nobody_is_trusted_at_the_beginning() -> None:
    server = method(begun=False)
    updates = {"a": change([1, 0]), "b": change([2, 1]), "c": change([0, -3])}
    left_out = [server.aggregate(updates).facts["weights"][0][2] == 0.0 for _ in range(16)]
    assert left_out == [True] * _PROBATION + [False]
    # As after a checkpoint.
    restored = method(begun=False)
    restored.load_state_dict(server.state_dict())
    assert restored.aggregate(updates).facts["weights"][0][2] > 0.0


def test_who_complains_is_averaged_with_those_who_agree_for_ten_rounds() -> None:
    server = method()
    updates = {"a": change([1, 0]), "b": change([2, 1]), "c": change([0, 3])}
    server.aggregate(updates | {"a": change([1, 0], kept_own=True)})
    assert weight(server, "a") == [1.5, 0.5]  # of a and b
    assert weight(server, "b") == [1.0, 1.3333]
    restored = method()
    restored.load_state_dict(server.state_dict())
    for number in range(11):
        weights = [each.aggregate(updates).facts["weights"] for each in (server, restored)]
        assert weights[0] == weights[1]
        assert (weights[0][0][2] == 0.0) == (number < 9)  # of c in the average of a


def test_who_kept_its_own_model_goes_on_from_it() -> None:
    server = method()
    server.aggregate({"a": change([1, 0]), "b": change([3, 0])})
    assert weight(server, "a") == [2.0, 0.0]
    # From its own 1, not from the 2 that it was sent.
    server.aggregate({"a": change([0, 1], kept_own=True), "b": change([1, 0])})
    assert server.state_dict()["model/a"].tolist() == [1.0, 1.0]
    assert server.state_dict()["model/b"].tolist() == [3.0, 0.0]


def test_a_new_institution_starts_from_the_median() -> None:
    server = method()
    server.aggregate({"a": change([1, 0]), "b": change([2, 0]), "c": change([900, 0])})
    assert weight(server, "new") == [2.0, 0.0]
    plain = method(robust=False)
    plain.aggregate({"a": change([1, 0]), "b": change([2, 0]), "c": change([900, 0])})
    assert weight(plain, "new") == [301.0, 0.0]


def test_a_refused_update_leaves_nothing_behind() -> None:
    server, other = method(), method()
    for each in (server, other):
        each.aggregate({"a": change([1, 0]), "b": change([3, 0])})
    spoilt = change([50, 50])
    spoilt.arrays[GLOBAL_NODES][:] = 9.0
    for name in ("b", "new"):
        server.receive(name, spoilt)
        server.refuse(name)
    server.aggregate({"a": change([1, 0])})
    other.aggregate({"a": change([1, 0])})
    assert weight(server, "a") == weight(other, "a")
    assert np.array_equal(server.message("a")[GLOBAL_NODES], other.message("a")[GLOBAL_NODES])
    assert "model/new" not in server.state_dict()


def test_nothing_of_a_refused_update_stays_in_the_comparison() -> None:
    server, other = (method(aggregation="personalised") for _ in range(2))
    for each in (server, other):
        each.aggregate({"a": change([1, 0]), "b": change([3, 0])})
    for name in ("b", "new"):
        server.receive(name, change([50, 50]))
        server.refuse(name)
    for each in (server, other):
        each.aggregate({"a": change([1, 0])})
    sketches = [
        {name: array.tolist() for name, array in each.state_dict().items() if "sketch" in name}
        for each in (server, other)
    ]
    assert sketches[0]
    assert sketches[0] == sketches[1]


def test_a_shortened_update_goes_a_part_of_the_way() -> None:
    server = method()
    updates = {"a": change([1, 0]), "b": change([8, 4])}
    kept = {name: server.receive(name, update) for name, update in updates.items()}
    kept["b"] = server.shorten("b", kept["b"], 0.25)
    server.aggregate(kept)
    assert weight(server, "a") == [1.5, 0.5]
