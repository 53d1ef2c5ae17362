"""The ledger of releases."""

import logging
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from fedgt_client.privacy.ledger import Ledger, carry_over, ledger_path, read_entries
from fedgt_client.privacy.release import Part, Release
from shared.errors import FedGTError
from tests.fedgt_client.privacy.entries import entry, noised


def add(path: Path, first: int, last: int, run: str = "run") -> None:
    ledger = Ledger(path)
    for number in range(first, last + 1):
        with ledger.locked():
            ledger.append(entry(number, run=run))


def test_a_torn_last_line_is_skipped_and_does_not_stop_later_rounds(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger.jsonl"
    add(path, 1, 3)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])  # a power cut while the third line was written
    add(path, 4, 5)
    with caplog.at_level(logging.WARNING):
        spent = Ledger(path).spent()
    assert spent.uploads == 4
    assert "damaged line, which is skipped" in caplog.text
    assert [found.round for found in read_entries(path)] == [1, 2, 4, 5]


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"{}\n", b"\xff\xfe\n", b'{"uploads": 3}\n', b"x"]
)
def test_a_file_of_something_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(content)
    add(path, 1, 2)
    assert Ledger(path).spent().uploads == 2


def test_entries_of_a_newer_version_are_not_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b'{"format": 2, "release": {}}\n')
    with pytest.raises(FedGTError, match="format 2, this version knows 1"):
        Ledger(path).spent()


def test_a_promise_of_the_upload_counts_for_its_coordinates_and_the_reverse() -> None:
    """Otherwise a run with another unit would begin with a new budget."""
    whole = Part(arrays=("w",), coordinates=9, unit="upload", mechanism="laplace", noise=0.5)
    ledger = Ledger(None)
    ledger.append(entry(1, release=Release(parts=(whole,))))
    spent = ledger.spent()
    assert spent.epsilon("upload") == spent.epsilon("coordinate") == 2.0
    ledger.append(entry(2, release=noised(4.0, coordinates=100)))
    assert ledger.spent().epsilon("coordinate") == pytest.approx(6.0, rel=0.01)
    assert ledger.spent().epsilon("upload") > 200


def test_what_was_drawn_once_counts_once() -> None:
    ledger = Ledger(None)
    for number, draw in enumerate(["a", "a", "b", "a"], start=1):
        part = Part(
            arrays=("w",), coordinates=9, unit="label", mechanism="pure", noise=0.25, draw=draw
        )
        release = Release(parts=(part,))
        expected = 8.0 if number > 2 else 4.0
        assert ledger.spent().epsilon_with(release) == expected
        ledger.append(entry(number, release=release))
        assert ledger.spent().epsilon("label") == expected


def test_it_goes_on_after_a_restart_and_over_run_names(tmp_path: Path) -> None:
    path = ledger_path(tmp_path, "d" * 64)
    add(path, 1, 2, "one")
    add(path, 1, 3, "two")
    spent = Ledger(path).spent()
    assert spent.uploads == 5
    assert spent.epsilon("coordinate") == pytest.approx(20.0, rel=0.01)


def test_two_processes_lose_no_entries(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=add, args=(path, 1, 60, name)) for name in ("a", "b", "c")]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert Ledger(path).spent().uploads == 180
    assert len(path.read_bytes().splitlines()) == 180


def test_a_ledger_sees_what_others_added(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    first, second = Ledger(path), Ledger(path)
    for number in range(1, 5):
        with (first if number % 2 else second).locked():
            (first if number % 2 else second).append(entry(number))
    assert first.spent().uploads == second.spent().uploads == 4
    assert first.contains(entry(4))
    assert not first.contains(entry(5))


def test_more_noise_does_not_lower_what_was_spent(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    totals = []
    for number, epsilon in enumerate([4.0, 4.0, 1e-3, 1e-6, 4.0], start=1):
        with ledger.locked():
            ledger.append(entry(number, release=noised(epsilon)))
        totals.append(ledger.spent().epsilon("coordinate"))
    assert totals == sorted(totals)
    assert totals[3] >= totals[1]


def test_uploads_without_noise_stand_in_it_as_such(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    plain = Release(parts=(Part(arrays=("w",), coordinates=9),))
    ledger = Ledger(path)
    with ledger.locked():
        ledger.append(entry(1, release=plain))
        ledger.append(entry(2, release=noised(private=False)))
    spent = Ledger(path).spent()
    assert (spent.uploads, spent.unprotected, spent.seeded) == (2, 2, 1)
    assert spent.epsilon("coordinate") == 4.0
    (first, _) = read_entries(path)
    assert first.release.parts[0].unit == "none"


def test_a_round_costs_the_same_however_long_the_ledger_is(tmp_path: Path) -> None:
    """It reads what is new, and writes a line."""
    path = tmp_path / "ledger.jsonl"
    line = entry().model_dump_json() + "\n"
    head, found, tail = line.partition('"content":"')
    path.write_text("".join(f"{head}{found}{number}-{tail}" for number in range(20_000)))
    ledger = Ledger(path)
    assert ledger.spent().uploads == 20_000
    size, started = path.stat().st_size, time.process_time()
    for number in range(50):
        with ledger.locked():
            ledger.append(entry(number))
    assert (time.process_time() - started) / 50 < 0.005
    assert path.stat().st_size - size < 51 * len(line)


def test_it_is_private_to_its_owner(tmp_path: Path) -> None:
    add(tmp_path / "ledger.jsonl", 1, 1)
    if os.name == "posix":
        assert (tmp_path / "ledger.jsonl").stat().st_mode & 0o077 == 0


def test_a_ledger_of_the_release_before_goes_on(tmp_path: Path) -> None:
    carry_over(tmp_path, "old", "new")
    assert not ledger_path(tmp_path, "new").exists()
    add(ledger_path(tmp_path, "old"), 1, 2)
    for _ in range(2):
        carry_over(tmp_path, "old", "new")
    add(ledger_path(tmp_path, "new"), 3, 3)
    assert Ledger(ledger_path(tmp_path, "new")).spent().uploads == 3
    assert Ledger(ledger_path(tmp_path, "old")).spent().uploads == 3


def test_ledgers_of_the_same_institution_count_together(tmp_path: Path) -> None:
    """Data with another link has a ledger of its own; its people are the same."""
    add(ledger_path(tmp_path, "before"), 1, 2)
    after = Ledger(ledger_path(tmp_path, "after"), "alba")
    with after.locked():
        after.append(entry(3))
    assert after.spent().uploads == 3
    assert after.spent().epsilon("coordinate") == pytest.approx(12.0, rel=0.01)
    assert Ledger(ledger_path(tmp_path, "after"), "bree").spent().uploads == 1
    assert Ledger(ledger_path(tmp_path, "after")).spent().uploads == 1
    # One file with two names counts once.
    carry_over(tmp_path, "before", "again")
    assert Ledger(ledger_path(tmp_path, "after"), "alba").spent().uploads == 3


def test_a_ledger_that_is_removed_stays_counted(tmp_path: Path) -> None:
    path = ledger_path(tmp_path, "data")
    ledger = Ledger(path, "alba")
    for number in (1, 2):
        with ledger.locked():
            ledger.append(entry(number))
    path.unlink()
    with ledger.locked():
        ledger.append(entry(3))
    assert ledger.spent().uploads == 3
