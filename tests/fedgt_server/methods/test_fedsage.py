"""FedSage+ at the coordinator: rows go to others, gradients come back to whose rows they are of."""

import numpy as np
import pytest

from deploy.settings import resolve_settings
from fedgt_server.admission import update_error
from fedgt_server.methods.fedsage import (
    DISCLOSURE,
    FedSage,
    distribute_rows,
    return_gradients,
    row_owners,
)
from shared.fedsage import OFFERED_ROWS
from shared.wire import (
    GENERATED_FEATURES,
    GENERATED_GRADIENTS,
    NUM_EXAMPLES,
    Arrays,
    Profile,
    Update,
)

PROFILE = Profile("1", ["age", "debt"], ["good", "bad"], {"weight": [2]})
INITIAL: Arrays = {"weight": np.zeros(2, np.float32)}
NAMES = ("a", "b", "c", "d")
ROUNDS = 50  # five of them the generators'


def begun() -> FedSage:
    method = FedSage(resolve_settings({"method": "fedsage", "rounds": ROUNDS}))
    method.begin(INITIAL)
    return method


def rows(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((OFFERED_ROWS, 2)).astype(np.float32)


def update(method: FedSage, name: str, number: int) -> Update:
    """Features of its own, and as gradients the rows that it was sent."""
    arrays: Arrays = {}
    for key in method.expected(PROFILE):
        if key == GENERATED_FEATURES:
            arrays[key] = rows(10 * number + NAMES.index(name))
        elif key == GENERATED_GRADIENTS:
            arrays[key] = method.message(name).get(GENERATED_FEATURES, np.zeros_like(rows(0)))
        else:
            arrays[key] = np.full(2, NAMES.index(name), np.float32)
    return Update(name, arrays, {NUM_EXAMPLES: 1.0})


def play(method: FedSage, number: int, names: tuple[str, ...] = NAMES) -> list[str]:
    report = method.aggregate({name: update(method, name, number) for name in names})
    return report.warnings


@pytest.mark.parametrize("institutions", [2, 3, 10])
@pytest.mark.parametrize("turn", [0, 1, 7])
def test_nobody_gets_its_own_and_every_row_goes_to_one(institutions: int, turn: int) -> None:
    owners = row_owners(institutions, 12, turn)
    assert not (owners == np.arange(institutions)[:, None]).any()
    for column in owners.T:
        assert sorted(column.tolist()) == list(range(institutions))


def test_over_rounds_a_row_goes_to_all_others() -> None:
    to = {int(np.flatnonzero(row_owners(5, 3, turn)[:, 2] == 0)[0]) for turn in range(4)}
    assert to == {1, 2, 3, 4}


def test_by_hand() -> None:
    """Three institutions, two rows, turn 0: row 0 from the next, row 1 from the one after."""
    offered = {name: np.full((2, 1), v, np.float32) for name, v in (("a", 1), ("b", 2), ("c", 3))}
    assert distribute_rows(offered, "a", 0).ravel().tolist() == [2.0, 3.0]
    assert distribute_rows(offered, "c", 0).ravel().tolist() == [1.0, 2.0]
    answers = (("a", 4), ("b", 5), ("c", 6))
    gradients = {name: np.array([[v], [10 * v]], np.float32) for name, v in answers}
    back = return_gradients(offered, gradients, 0)
    assert back["a"].ravel().tolist() == [6.0, 50.0]
    assert back["b"].ravel().tolist() == [4.0, 60.0]
    assert back["c"].ravel().tolist() == [5.0, 40.0]


def test_gradients_come_back_two_rounds_later_to_whose_rows_they_are_of() -> None:
    method = begun()
    assert method.message("a") == {}
    assert play(method, 1) == [DISCLOSURE]
    assert method.message("a").keys() == {GENERATED_FEATURES}
    assert play(method, 2) == []
    for index, name in enumerate(NAMES):
        message = method.message(name)
        # Gradients were the rows themselves.
        assert message[GENERATED_GRADIENTS].tolist() == rows(10 + index).tolist()
        assert message[GENERATED_FEATURES].shape == (OFFERED_ROWS, 2)


def test_rows_of_one_that_does_not_answer() -> None:
    method = begun()
    play(method, 1)
    play(method, 2, ("a", "b", "c"))
    back = method.message("a")[GENERATED_GRADIENTS]
    lost = ~back.any(axis=1)
    assert 0 < lost.sum() < OFFERED_ROWS
    assert back[~lost].tolist() == rows(10)[~lost].tolist()
    # It still hears of its own rows, and has none to judge.
    assert method.message("d").keys() == {GENERATED_GRADIENTS}
    assert method.message("newcomer") == {}


def test_alone_there_is_nobody_to_exchange_with() -> None:
    method = begun()
    for number in (1, 2, 3):
        play(method, number, ("a",))
        assert method.message("a") == {}


def test_an_update_must_hold_what_its_round_exchanges() -> None:
    method, shape = begun(), [OFFERED_ROWS, 2]
    expected = []
    for number in range(1, 7):
        expected.append(method.expected(PROFILE))
        play(method, number)
    both = {GENERATED_FEATURES: shape, GENERATED_GRADIENTS: shape}
    features, gradients = ({key: shape} for key in both)
    assert expected == [features, both, both, gradients, {}, {"weight": [2]}]
    wrong = Update("a", {GENERATED_FEATURES: np.zeros((OFFERED_ROWS, 3), np.float32)}, {})
    assert (
        update_error(wrong, features) == f"generated_features has shape [64, 3], expected {shape}"
    )
    more = Update("a", {GENERATED_FEATURES: np.zeros((OFFERED_ROWS + 1, 2), np.float32)}, {})
    assert update_error(more, features) == f"generated_features has shape [65, 2], expected {shape}"
    assert update_error(Update("a", dict(INITIAL), {}), features) is not None


def test_then_it_averages_as_fedavg() -> None:
    method = begun()
    for number in range(1, 6):
        play(method, number)
        if number == 5:
            assert method.message("a")["weight"].tolist() == [0.0, 0.0]
    play(method, 6)
    assert method.message("a").keys() == {"weight"}
    assert method.message("a")["weight"].tolist() == [1.5, 1.5]


@pytest.mark.parametrize("after", [1, 2, 4, 5, 6])
def test_restored_it_sends_the_same(after: int) -> None:
    method = begun()
    for number in range(1, after + 1):
        play(method, number)
    other = FedSage(resolve_settings({"method": "fedsage", "rounds": ROUNDS}))
    other.load_state_dict(method.state_dict())
    for one in (method, other):
        play(one, after + 1)
    for name in NAMES:
        expected, found = method.message(name), other.message(name)
        assert found.keys() == expected.keys()
        for key, array in expected.items():
            assert found[key].tobytes() == array.tobytes()
    assert other.expected(PROFILE) == method.expected(PROFILE)
