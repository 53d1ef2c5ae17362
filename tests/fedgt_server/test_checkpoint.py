"""Checkpoints: torn ones are skipped."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedgt_server.checkpoint import BestRound, Checkpoint, CheckpointFacts, Checkpoints
from shared.wire import Profile
from tests.fedgt_server.disk import room_for


def checkpoint(number: int) -> Checkpoint:
    return Checkpoint(number, facts(number), {"model/a": np.full(3, number)})


def facts(number: int, method: str = "fedgt") -> CheckpointFacts:
    return CheckpointFacts(
        config={"method": method, "rounds": 9, "tau": 5.0, "resume": False},
        best=BestRound(number, 0.5, ("a", "b")),
        profile=Profile("1.0", ["age"], ["good", "bad"], {"head": [1, 2]}),
    )


@pytest.fixture
def kept(tmp_path: Path) -> Checkpoints:
    """Save rounds 1 to 3."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    for number in (1, 2, 3):
        checkpoints.save(checkpoint(number))
    return checkpoints


def tear_tensors(folder: Path) -> None:
    path = folder / "round-000003.safetensors"
    path.write_bytes(path.read_bytes()[:-5])


def empty_tensors(folder: Path) -> None:
    (folder / "round-000003.safetensors").write_bytes(b"")


def flip_a_bit(folder: Path) -> None:
    path = folder / "round-000003.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def lose_tensors(folder: Path) -> None:
    (folder / "round-000003.safetensors").unlink()


def lose_facts(folder: Path) -> None:
    (folder / "round-000003.json").unlink()


def tear_facts(folder: Path) -> None:
    path = folder / "round-000003.json"
    path.write_text(path.read_text()[:-7])


def empty_facts(folder: Path) -> None:
    (folder / "round-000003.json").write_text("")


def strange_facts(folder: Path) -> None:
    (folder / "round-000003.json").write_text("[]")


def facts_of_another_kind(folder: Path) -> None:
    path = folder / "round-000003.json"
    document = json.loads(path.read_text())
    document["facts"]["best"] = "the third"
    path.write_text(json.dumps(document))


def facts_without_checksum(folder: Path) -> None:
    (folder / "round-000003.json").write_text(json.dumps({"facts": {}}))


@pytest.mark.parametrize(
    "damage",
    [
        tear_tensors,
        empty_tensors,
        flip_a_bit,
        lose_tensors,
        lose_facts,
        tear_facts,
        empty_facts,
        strange_facts,
        facts_of_another_kind,
        facts_without_checksum,
    ],
)
def test_damaged_pair_is_skipped(kept: Checkpoints, damage: Callable[[Path], None]) -> None:
    damage(kept.folder)
    newest = kept.newest()
    assert newest is not None
    assert newest.round_number == 2
    assert newest.arrays["model/a"].tolist() == [2, 2, 2]


def test_no_whole_pair_is_none(kept: Checkpoints) -> None:
    for path in kept.folder.glob("*.json"):
        path.write_text("{")
    assert kept.newest() is None


def test_nothing_there_is_none(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path / "nowhere").newest() is None


def test_newest_is_exact(kept: Checkpoints) -> None:
    newest = kept.newest()
    assert newest is not None
    assert newest.round_number == 3
    assert newest.facts == facts(3)
    assert newest.arrays["model/a"].tolist() == [3, 3, 3]


def test_three_are_kept(kept: Checkpoints) -> None:
    kept.save(checkpoint(4))
    assert kept.rounds() == [2, 3, 4]
    assert len(list(kept.folder.iterdir())) == 6


def test_the_oldest_is_written_over(kept: Checkpoints) -> None:
    oldest = kept.folder / "round-000001.safetensors"
    place = oldest.stat().st_ino
    kept.save(checkpoint(4))
    assert (kept.folder / "round-000004.safetensors").stat().st_ino == place
    newest = kept.newest()
    assert newest is not None
    assert newest.arrays["model/a"].tolist() == [4, 4, 4]


def test_what_a_run_goes_on_from_is_not_written_over(kept: Checkpoints) -> None:
    newest = kept.newest()
    assert newest is not None
    for number in range(4, 10):
        kept.save(checkpoint(number))
    assert newest.arrays["model/a"].tolist() == [3, 3, 3]


def test_that_of_the_best_round_is_kept_beside_them(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    for number, best in ((1, 1), (2, 2), (3, 2), (4, 2), (5, 2), (6, 6), (7, 6), (8, 6)):
        saved = facts(number).model_copy(update={"best": BestRound(best, 0.5, ("a", "b"))})
        checkpoints.save(Checkpoint(number, saved, {"model/a": np.full(3, number)}))
        assert checkpoints.rounds() == [
            old for old in range(1, number + 1) if old == best or old > number - 3
        ]
    checkpoints.save(Checkpoint(9, saved, {"model/a": np.full(3, 9)}))
    # All of the last are damaged: a run goes on after its best round.
    for number in (7, 8, 9):
        (tmp_path / f"round-{number:06d}.safetensors").write_bytes(b"\x00" * 9)
    newest = checkpoints.newest()
    assert newest is not None
    assert newest.round_number == 6


def test_checkpoints_of_an_earlier_run_of_the_same_name_are_deleted(kept: Checkpoints) -> None:
    """Its later rounds would push the new run's first ones out."""
    kept.delete_all()
    assert kept.newest() is None
    kept.save(checkpoint(1))
    newest = kept.newest()
    assert newest is not None
    assert newest.round_number == 1


@pytest.mark.parametrize("size", [10, 150])  # of no array; of all arrays, but not the facts
def test_a_full_disk_leaves_the_last_good_one(kept: Checkpoints, size: int) -> None:
    before = {
        path.name: path.read_bytes() for path in kept.folder.iterdir() if "1" not in path.name
    }
    large = Checkpoint(4, facts(4, method="x" * 1000), {"model/a": np.full(3, 4)})
    with pytest.raises(OSError, match=r"too large|cannot be written"), room_for(size):
        kept.save(large)
    after = {path.name: path.read_bytes() for path in kept.folder.iterdir()}
    assert after == before
    newest = kept.newest()
    assert newest is not None
    assert newest.round_number == 3
    kept.save(large)
    assert kept.rounds() == [2, 3, 4]
