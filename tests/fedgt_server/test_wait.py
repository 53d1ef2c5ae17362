"""For whom a round waits, how long, and what the log says meanwhile; by a clock that is set."""

import logging
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from fedgt_server.events import RoundEvent
from fedgt_server.journal import Journal
from fedgt_server.round_loop import RoundLoop
from fedgt_server.strategy import FedGTStrategy
from fedgt_server.wait import Patience
from shared.config import Scalar
from tests.fedgt_server.grid import Node, ScriptedGrid, settings


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace the clock by one that only sleeping moves."""
    clock = SimpleNamespace(now=1000.0)

    def sleep(seconds: float) -> None:
        clock.now += seconds

    fake = SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep, time=time.time)
    places = [f"fedgt_server.{name}" for name in ("wait", "exchange", "round_loop", "strategy")]
    for place in (*places, "tests.fedgt_server.grid"):
        monkeypatch.setattr(f"{place}.time", fake)
    return clock


def play(grid: ScriptedGrid, folder: Path, **changed: Scalar) -> list[RoundEvent]:
    values: dict[str, Scalar] = {"min_institutions": 1, "start_institutions": 2}
    limits: dict[str, Scalar] = {"round_deadline": 600.0, "give_up_after": 3600.0}
    RoundLoop(grid, FedGTStrategy(settings(**values | limits | changed)), folder).run()
    return Journal(folder / "journal.jsonl").rounds()


def test_the_limit_holds_until_enough_is_known() -> None:
    patience = Patience(600.0)
    for _ in range(2):
        patience.answered("a", 10.0)
    assert patience.seconds("a") == 600.0
    patience.answered("a", 30.0)
    assert patience.seconds("a") == 60.0
    assert patience.seconds("b") == 600.0


def test_a_multiple_of_the_median_up_to_the_limit() -> None:
    patience = Patience(600.0)
    for seconds in (40.0, 40.0, 50.0):
        patience.answered("a", seconds)
    assert patience.seconds("a") == 200.0
    for _ in range(20):
        patience.answered("a", 200.0)
    assert patience.seconds("a") == 600.0
    assert Patience(5.0).seconds("a") == 5.0


def test_who_has_become_slower_gets_more_time_with_every_miss() -> None:
    patience = Patience(600.0)
    for _ in range(3):
        patience.answered("a", 1.0)
    waited = []
    for _ in range(5):
        waited.append(patience.seconds("a"))
        patience.missed("a")
    assert waited == [60.0, 120.0, 240.0, 480.0, 600.0]
    patience.answered("a", 90.0)
    assert patience.seconds("a") == 60.0


def test_a_stopped_institution_holds_a_round_by_its_own_measure(tmp_path: Path) -> None:
    stopped = Node("bree", late=dict.fromkeys(range(1, 5), 4.0), silent={5})
    rounds = play(ScriptedGrid(Node("alba"), stopped), tmp_path, rounds=6)
    assert rounds[4].missing == ["bree"]
    assert rounds[4].left_out == {"bree": "no answer within 60 s"}
    assert sorted(rounds[5].institutions) == ["alba", "bree"]


def test_in_the_first_round_there_is_the_limit_alone(tmp_path: Path) -> None:
    rounds = play(ScriptedGrid(Node("alba"), Node("bree", silent={1})), tmp_path, rounds=1)
    assert rounds[0].left_out == {"bree": "no answer within 600 s"}


def test_a_round_that_needs_it_waits_for_it_to_the_limit(tmp_path: Path) -> None:
    late = Node("bree", late={5: 400.0})
    rounds = play(ScriptedGrid(Node("alba"), late), tmp_path, rounds=5, min_institutions=2)
    assert sorted(rounds[4].institutions) == ["alba", "bree"]


def test_the_log_says_who_is_awaited_and_since_when(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fedgt_server")
    grid = ScriptedGrid(Node("alba"), Node("bree", late={1: 19.0, 2: 100.0}), Node("cray"))
    play(grid, tmp_path, rounds=2)
    lines = [line for line in caplog.messages if "waiting for" in line]
    assert [line.rpartition("(")[2] for line in lines] == ["20 s)", "40 s)", "80 s)"]
    assert all(line.startswith("round 2: waiting for bree, since ") for line in lines)


def test_the_log_says_whose_introduction_is_awaited(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fedgt_server")
    grid = ScriptedGrid(Node("alba"), Node("b", registered="bree", late={0: 30.0}))
    play(grid, tmp_path, rounds=1)
    (line,) = [line for line in caplog.messages if "waiting for" in line]
    assert line.startswith("introductions: waiting for bree, since ")


def test_nothing_is_said_of_a_short_wait(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fedgt_server")
    play(ScriptedGrid(Node("alba"), Node("bree", late={1: 10.0})), tmp_path, rounds=1)
    assert not [line for line in caplog.messages if "waiting for" in line]
