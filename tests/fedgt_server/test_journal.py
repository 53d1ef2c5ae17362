"""The journal: torn lines, NaN, repeated rounds."""

import json
import math
from pathlib import Path

import pytest

from fedgt_server.events import EndEvent, FailedEvent, ResumeEvent, StartEvent, parse_event
from fedgt_server.journal import Journal
from tests.fedgt_server.disk import room_for
from tests.fedgt_server.events import institution_round, round_event


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"round": 1}',
        b'{"event": "lunch"}',
        b'{"event": "resume"}',
        b'{"event": "resume", "after_round": "soon"}',
        b'{"event": "failed", "reason": "x", "status": "tired"}',
        b'{"event": "round", "round": 1}',
        '{"event": "warning", "warning": "Zürich'.encode()[:-5],
    ],
)
def test_what_is_no_event_is_not_parsed(line: bytes) -> None:
    assert parse_event(line) is None


def test_an_event_of_an_earlier_version_is_parsed() -> None:
    """A failure had no status then."""
    event = parse_event(b'{"event": "failed", "time": "2026-01-01T00:00:00+00:00", "reason": "x"}')
    assert event == FailedEvent(time="2026-01-01T00:00:00+00:00", reason="x", status="failed")


def test_no_file_is_no_event(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "new" / "journal.jsonl")
    assert list(journal.read()) == []
    assert journal.last() is None
    assert list(tmp_path.iterdir()) == []


def test_every_event_is_read_as_it_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    part = institution_round(train_loss=0.25, warnings=["late"], uploads={"weights": 8})
    events = [
        StartEvent(config={"rounds": 2, "lr": 0.5, "resume": False, "method": "fedgt"}),
        round_event(1, {"a": part}, similarity=[[1.0, 0.5], [0.5, 1.0]], clusters=[["a"], ["b"]]),
        FailedEvent(reason="no quorum", status="gave-up"),
        ResumeEvent(after_round=1),
    ]
    for event in events:
        journal.write(event)
    assert list(journal.read()) == events
    assert journal.last() == events[-1]
    assert journal.rounds()[0].institutions["a"].metrics == {"train_loss": 0.25}


def test_torn_line_is_skipped_and_spoils_no_other(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write(round_event(1))
    with journal.path.open("a") as stream:
        stream.write('{"event": "round", "rou')
    assert [event.round for event in journal.rounds()] == [1]
    journal.write(ResumeEvent(after_round=1))
    journal.write(round_event(2))
    assert [event.event for event in journal.read()] == ["round", "resume", "round"]


def test_torn_character_is_skipped(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write(StartEvent(config={"run-name": "Banco"}))
    with journal.path.open("ab") as stream:
        stream.write('{"event": "Zürich'.encode()[:-5])
    journal.write(ResumeEvent(after_round=1))
    assert [event.event for event in journal.read()] == ["start", "resume"]


def test_nan_becomes_null(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    part = institution_round(loss=math.nan)
    journal.write(round_event(1, {"a": part}, self_weight=math.nan, deep={"of": [math.inf, 0.5]}))
    line = journal.path.read_text()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    event = json.loads(line, parse_constant=refuse)
    assert event["self_weight"] is None
    assert event["deep"] == {"of": [None, 0.5]}
    assert event["institutions"]["a"]["loss"] is None
    assert journal.rounds()[0].institutions["a"].metrics == {}


def test_facts_that_a_method_does_not_report_are_absent(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write(round_event(1, val_accuracy=None))
    event = json.loads(journal.path.read_text())
    assert event["val_accuracy"] is None
    assert "similarity" not in event


def test_repeated_round_counts_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for number, seconds in ((1, 0.1), (2, 0.2), (2, 0.3), (3, 0.4)):
        journal.write(round_event(number, seconds=seconds))
    assert [(e.round, e.seconds) for e in journal.rounds()] == [(1, 0.1), (2, 0.3), (3, 0.4)]


def test_separators_within_text_do_not_break_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write(round_event(1, warnings=["one\u2028two\nthree\x85"]))
    assert journal.rounds()[0].warnings == ["one\u2028two\nthree\x85"]


def test_start_new_renames_the_old_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.start_new()
    journal.write(round_event(1))
    journal.start_new()
    journal.write(round_event(2))
    assert [event.round for event in journal.rounds()] == [2]
    assert [e.round for e in Journal(tmp_path / "journal.previous.jsonl").rounds()] == [1]


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write(round_event(1))
    before = journal.path.read_bytes()
    with pytest.raises(OSError, match="too large"), room_for(len(before) + 20):
        journal.write(round_event(2))
    assert journal.path.read_bytes() == before
    journal.write(round_event(2))
    assert [event.round for event in journal.rounds()] == [1, 2]


def test_the_end_of_an_earlier_version_has_no_uploads() -> None:
    line = {
        "event": "end",
        "time": "2026-01-01T00:00:00+00:00",
        "method": "fedgt",
        "test_accuracy": None,
        "val_accuracy": None,
        "best_round": 1,
        "rounds": 1,
        "per_client": {"a": {"val_accuracy": None, "test_accuracy": 0.5}},
        "seconds": 1,
        "bytes_up": 1,
        "bytes_down": 1,
        "similarity_spread": [None],
        "privacy": None,
    }
    assert isinstance(parse_event(json.dumps(line).encode()), EndEvent)
