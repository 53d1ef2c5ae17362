"""The journal: torn lines, NaN, repeated rounds."""

import json
import math
from pathlib import Path

import pytest

from fedgt_server.journal import Journal
from tests.fedgt_server.disk import room_for


def test_no_file_is_no_event(tmp_path: Path) -> None:
    assert list(Journal(tmp_path / "new" / "journal.jsonl").read()) == []


def test_torn_line_is_passed_over_and_swallows_nothing(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("round", round=1)
    with journal.path.open("a") as stream:
        stream.write('{"event": "round", "rou')
    assert [event["round"] for event in journal.rounds()] == [1]
    journal.write("resume", after_round=1)
    journal.write("round", round=2)
    assert [event["event"] for event in journal.read()] == ["round", "resume", "round"]


def test_torn_character_is_passed_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("start", name="Banco")
    with journal.path.open("ab") as stream:
        stream.write('{"event": "Zürich'.encode()[:-5])
    journal.write("end")
    assert [event["event"] for event in journal.read()] == ["start", "end"]


def test_nan_becomes_null(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("round", round=1, loss=math.nan, deep={"of": [math.inf, 0.5]})
    line = journal.path.read_text()

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    event = json.loads(line, parse_constant=refuse)
    assert event["loss"] is None
    assert event["deep"] == {"of": [None, 0.5]}


def test_repeated_round_counts_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for number, value in ((1, "a"), (2, "b"), (2, "c"), (3, "d")):
        journal.write("round", round=number, value=value)
    assert [(e["round"], e["value"]) for e in journal.rounds()] == [(1, "a"), (2, "c"), (3, "d")]


def test_separators_within_text_do_not_break_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("round", round=1, warnings=["one\u2028two\nthree\x85"])
    assert journal.rounds()[0]["warnings"] == ["one\u2028two\nthree\x85"]


def test_start_anew_puts_the_old_one_aside(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.start_anew()
    journal.write("start", run=1)
    journal.start_anew()
    journal.write("start", run=2)
    assert [event["run"] for event in journal.read()] == [2]
    assert [e["run"] for e in Journal(tmp_path / "journal.previous.jsonl").read()] == [1]


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write("round", round=1)
    before = journal.path.read_bytes()
    with pytest.raises(OSError, match="too large"), room_for(len(before) + 20):
        journal.write("round", round=2)
    assert journal.path.read_bytes() == before
    journal.write("round", round=2)
    assert [event["round"] for event in journal.rounds()] == [1, 2]
