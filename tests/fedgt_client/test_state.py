"""An institution's durable state."""

import os
from pathlib import Path

import numpy as np
import pytest

from fedgt_client.state import InMemoryState, SavedRound, StateStore
from shared.errors import FedGTError
from shared.files import Array


def state(number: int) -> dict[str, Array]:
    return {"weight": np.full((2, 2), number, np.float32), "rounds": np.array(number)}


def before(store: StateStore, number: int) -> int | None:
    newest = store.newest_before(number)
    return newest.round_number if newest else None


@pytest.fixture
def store(tmp_path: Path) -> StateStore:
    return StateStore(tmp_path, "federation", "run", "alba")


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../up", "a b", "a\\b", "a\n"])
def test_names_that_cannot_be_folders(name: str, tmp_path: Path) -> None:
    for names in ((name, "run", "alba"), ("f", name, "alba"), ("f", "run", name)):
        with pytest.raises(FedGTError, match="cannot name a folder"):
            StateStore(tmp_path, *names)
    assert list(tmp_path.iterdir()) == []


def test_letters_of_any_language_can(tmp_path: Path) -> None:
    assert StateStore(tmp_path, "bücher", "run-1", "Bank_2.0").folder.name == "Bank_2.0"


def test_nothing_there(store: StateStore) -> None:
    assert store.rounds() == []
    assert before(store, 5) is None
    assert store.load_best() is None
    with pytest.raises(FileNotFoundError):
        store.load(1)


def test_saved_is_loaded_exactly(store: StateStore) -> None:
    store.save(1, state(1))
    loaded = store.load(1)
    assert loaded["weight"].tolist() == [[1.0, 1.0]] * 2
    assert loaded["weight"].dtype == np.float32
    assert loaded["rounds"].shape == ()
    assert int(loaded["rounds"]) == 1


def test_the_last_rounds_are_kept(store: StateStore) -> None:
    for number in range(1, 6):
        store.save(number, state(number))
    # A coordinator that goes back by one checkpoint asks for round 4 again, which needs round 3.
    assert store.rounds() == [3, 4, 5]
    assert before(store, 6) == 5
    assert before(store, 5) == 4
    assert before(store, 4) == 3
    assert before(store, 3) is None


def test_the_oldest_is_written_over(store: StateStore) -> None:
    for number in range(1, 4):
        store.save(number, state(number))
    oldest = (store.folder / "round-000001.safetensors").stat().st_ino
    store.save(4, state(4) | {"more": np.arange(3)})
    store.save(5, state(5))  # shorter than what was there
    assert (store.folder / "round-000004.safetensors").stat().st_ino == oldest
    assert [int(store.load(number)["rounds"]) for number in store.rounds()] == [3, 4, 5]


def test_what_was_loaded_is_not_written_over(store: StateStore) -> None:
    store.save(1, state(1))
    loaded = store.load(1)
    for number in range(2, 9):
        store.save(number, state(number))
    assert loaded["weight"].tolist() == [[1.0, 1.0]] * 2


def test_rounds_that_were_missed(store: StateStore) -> None:
    """A coordinator that goes back asks for rounds before the first that was played again."""
    for number in (1, 2, 9):
        store.save(number, state(number))
    assert store.rounds() == [2, 9]
    assert before(store, 8) == before(store, 9) == 2
    assert before(store, 20) == 9
    store.save(8, state(8))  # the coordinator went back
    assert store.rounds() == [2, 8]
    for number in (9, 10):
        store.save(number, state(number))
    assert store.rounds() == [8, 9, 10]


@pytest.mark.parametrize("left", [0, 5, 60])  # bytes
def test_a_truncated_state_is_skipped(store: StateStore, left: int) -> None:
    for number in (1, 2):
        store.save(number, state(number))
    truncated = store.folder / "round-000002.safetensors"
    truncated.write_bytes(truncated.read_bytes()[:left])
    assert before(store, 3) == 1
    store.save(3, state(3))
    assert before(store, 4) == 3


def test_later_rounds_are_deleted(store: StateStore) -> None:
    """A coordinator that resumed asks for round 2 again: what followed no longer counts."""
    for number in (1, 2, 3):
        store.save(number, state(number))
    store.save(2, state(20))
    assert store.rounds() == [1, 2]
    assert before(store, 4) == 2
    assert store.load(2)["weight"][0, 0] == 20.0


def test_the_same_round_saved_again_is_another(store: StateStore) -> None:
    first = store.save(1, state(1))
    assert store.newest_before(2) == first
    os.utime(store.folder / "round-000001.safetensors", ns=(5, 5))
    assert store.save(1, state(1)) == store.newest_before(2) != SavedRound(1, 5)


def test_best_is_apart(store: StateStore) -> None:
    store.save(1, state(1))
    store.keep_best(1)
    for number in (2, 3, 4, 5):
        store.save(number, state(number))
    best = store.load_best()
    assert best is not None
    assert best["weight"][0, 0] == 1.0
    store.keep_best(5)
    best = store.load_best()
    assert best is not None
    assert best["weight"][0, 0] == 5.0


def test_foreign_files_are_left_alone(store: StateStore) -> None:
    store.save(1, state(1))
    (store.folder / "round-x.safetensors").write_text("")
    (store.folder / ".round-000002.safetensors.abc").write_text("")  # a write that was cut off
    assert store.rounds() == [1]


def test_institutions_and_runs_are_separate(tmp_path: Path) -> None:
    stores = [
        StateStore(tmp_path, *names)
        for names in (("f", "r", "a"), ("f", "r", "b"), ("f", "s", "a"), ("g", "r", "a"))
    ]
    for number, store in enumerate(stores, start=1):
        store.save(number, state(number))
    assert [store.rounds() for store in stores] == [[1], [2], [3], [4]]


def test_in_memory_state_writes_nothing_and_refuses_to_repeat_a_round(tmp_path: Path) -> None:
    store = InMemoryState(tmp_path, "federation", "run", "alba")
    assert before(store, 1) is None
    for number in (1, 2, 4):
        assert store.save(number, state(number)) == store.newest_before(number + 1)
        store.keep_best(number)
    with pytest.raises(FedGTError, match="round 4 cannot be played again: checkpoints is off"):
        store.newest_before(4)
    assert list(tmp_path.iterdir()) == []
