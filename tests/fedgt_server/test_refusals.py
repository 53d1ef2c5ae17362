"""Institutions that refuse a run: it costs their part, and everybody can read why."""

import logging
from pathlib import Path

import pytest

from fedgt_server.events import WarningEvent
from fedgt_server.journal import Journal
from fedgt_server.round_loop import RoundLoop
from fedgt_server.strategy import FedGTStrategy
from shared.config import Scalar
from shared.errors import FedGTError, RefusedError
from tests.fedgt_server.grid import Node, ScriptedGrid, settings

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.timeout(120)]

LINE = "hidden = 65536, allowed: at most 1024 ([policy] max-hidden)"


def refusing(name: str, registered: str = "") -> Node:
    return Node(name, registered, fails={0}, reason=str(RefusedError(name, LINE)))


def run(grid: ScriptedGrid, folder: Path, **changed: Scalar) -> None:
    RoundLoop(grid, FedGTStrategy(settings(**changed)), folder).run()


def warnings(folder: Path) -> list[str]:
    events = Journal(folder / "journal.jsonl").read()
    return [event.warning for event in events if isinstance(event, WarningEvent)]


def test_with_too_few_others_the_run_ends_at_once_with_the_reason(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("alba"), refusing("bree"))
    with pytest.raises(FedGTError, match="bree refuses the run: hidden = 65536, allowed: at most"):
        run(grid, tmp_path, give_up_after=1e6)


def test_nobody_takes_part(tmp_path: Path) -> None:
    grid = ScriptedGrid(refusing("alba"), refusing("bree"))
    with pytest.raises(FedGTError, match=r"no institution can take part: alba refuses the run"):
        run(grid, tmp_path, give_up_after=1e6)


def test_the_others_go_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    grid = ScriptedGrid(Node("alba"), refusing("x", "bree"), Node("cork"))
    with caplog.at_level(logging.WARNING, "fedgt_server"):
        run(grid, tmp_path)
    line = f"bree is not admitted: it refuses the run: {LINE}"  # by the name of its key
    assert warnings(tmp_path) == [line]
    assert caplog.text.count(LINE) == 1  # in three rounds
    assert [event.missing for event in Journal(tmp_path / "journal.jsonl").rounds()] == [[]] * 3
    assert grid.nodes[2].notices == []


def test_one_that_refuses_later_is_left_out_of_that_round(tmp_path: Path) -> None:
    late = Node("bree", fails={2}, reason=str(RefusedError("bree", LINE)))
    grid = ScriptedGrid(Node("alba"), late, Node("cork"))
    run(grid, tmp_path)
    rounds = Journal(tmp_path / "journal.jsonl").rounds()
    assert [event.missing for event in rounds] == [[], ["bree"], []]
    assert rounds[1].left_out == {"bree": f"bree refuses the run: {LINE}"}


def test_what_a_refusal_says_is_one_short_line(tmp_path: Path) -> None:
    long = RefusedError("x\x1b[2J" * 99, "forged\nlines " * 999)
    grid = ScriptedGrid(Node("alba"), Node("y", fails={0}, reason=str(long)), Node("cork"))
    run(grid, tmp_path)
    assert all(len(line) < 1000 and line.isprintable() for line in warnings(tmp_path))
