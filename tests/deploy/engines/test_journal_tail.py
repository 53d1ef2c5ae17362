"""A journal that another process writes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.engines.journal_tail import JournalTail, follow_run
from fedgt_server.events import RoundEvent
from fedgt_server.journal import Journal
from tests.fedgt_server.events import round_event

_WRITE = """
import sys, time
from pathlib import Path
from fedgt_server.events import FailedEvent
from fedgt_server.journal import Journal
from tests.fedgt_server.events import round_event
journal = Journal(Path(sys.argv[1]))
for number in (1, 2):
    time.sleep(0.5)
    journal.write(round_event(number))
journal.write(FailedEvent(reason="the disk is full"))
time.sleep(300)
"""


def test_only_what_is_whole_and_new_is_told(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    written = Journal(path)
    written.write(round_event(1))  # of the run that is resumed
    journal = JournalTail(path)
    assert list(journal.rounds()) == []
    written.write(round_event(2))
    line = json.dumps(round_event(3).to_json()).encode()
    with path.open("ab") as stream:
        stream.write(line[:14])
    assert [event.round for event in journal.rounds()] == [2]
    with path.open("ab") as stream:
        stream.write(line[14:] + b"\nno event\n")
    assert [event.round for event in journal.rounds()] == [3]
    assert not journal.ended


def test_a_run_that_has_not_begun(tmp_path: Path) -> None:
    assert list(JournalTail(tmp_path / "journal.jsonl").rounds()) == []


@pytest.mark.slow
def test_a_run_is_followed_to_its_end_not_to_that_of_its_process(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    seen: list[RoundEvent] = []
    journal = JournalTail(path)
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", _WRITE, str(path)], cwd=root) as process:
        try:
            follow_run(process, journal, seen.append)
            assert process.poll() is None
        finally:
            process.kill()
    assert [event.round for event in seen] == [1, 2]
    assert journal.failure == "the disk is full"


def test_a_process_that_ends_without_a_word(tmp_path: Path) -> None:
    journal = JournalTail(tmp_path / "journal.jsonl")
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        follow_run(process, journal, lambda _: None)
    assert (journal.ended, journal.failure) == (False, None)
