"""The live table of a run."""

import io

import pytest
from rich.console import Console

from deploy.cli.progress import round_progress
from deploy.cli.round_table import RoundTable, slow_institution
from fedgt_server.events import RoundEvent
from tests.fedgt_server.events import institution_round, round_event


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def shown(table: RoundTable) -> str:
    stream = io.StringIO()
    Console(file=stream, width=120).print(table)
    return stream.getvalue()


def played(number: int, val: float | None, **changed: object) -> RoundEvent:
    parts = {name: institution_round(seconds=1.0) for name in ("bank-a", "bank-b")}
    return round_event(
        number, parts, **{"val_accuracy": val, "best_round": 1, "seconds": 2.0, **changed}
    )


def test_before_the_first_round_it_prepares() -> None:
    clock = Clock()
    table = RoundTable("fedgt", 10, clock)
    assert "round 0 of 10" in shown(table)
    assert "preparing" in shown(table)
    clock.now = 30.0
    assert "preparing for 30 s" in shown(table)


def test_rounds_time_left_trend_and_answers() -> None:
    table = RoundTable("fedgt", 10, Clock())
    for number, val in ((1, 0.5), (2, 0.59), (3, 0.655)):
        table.observe(played(number, val))
    text = shown(table)
    assert "round 3 of 10" in text
    assert "14 s left" in text
    assert "65.5% ↑ +15.5 in 2 rounds" in text
    assert "▁▅█" in text
    assert "best in round 1" in text
    assert "2 of 2" in text


def test_who_is_missing_is_named() -> None:
    table = RoundTable("fedgt", 10, Clock())
    table.observe(played(1, 0.5, missing=["bank-c", "[red]bank-d"]))
    assert "2 of 4; missing: bank-c, [red]bank-d" in shown(table)


def test_a_round_that_takes_long_is_shown_with_its_time() -> None:
    clock = Clock()
    table = RoundTable("fedgt", 10, clock)
    table.observe(played(1, 0.5))
    clock.now = 42.0
    assert "the next for 42 s" in shown(table)


def test_validation_that_nobody_shared() -> None:
    table = RoundTable("fedgt", 10, Clock())
    table.observe(played(1, None))
    assert "nobody shared it" in shown(table)


@pytest.mark.parametrize(
    ("seconds", "slow"),
    [({"a": 1.0, "b": 1.2, "c": 9.0}, "c, 9.0 s"), ({"a": 1.0, "b": 1.2, "c": 1.9}, ""), ({}, "")],
)
def test_who_is_slow(seconds: dict[str, float], slow: str) -> None:
    parts = {name: institution_round(seconds=value) for name, value in seconds.items()}
    assert slow_institution(parts).startswith(slow)
    assert bool(slow_institution(parts)) == bool(slow)


def test_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=200)
    with round_progress(console, "fedgt", 20, show=True) as observe:
        for number in range(1, 21):
            observe(played(number, 0.5, missing=["bank-c"]))
    lines = stream.getvalue().splitlines()
    assert lines[0] == "fedgt: preparing"
    assert lines[-1] == "fedgt: round 20/20, validation 50.0%, 2 of 3 answered"
    assert len(lines) == 11
    assert "\x1b" not in stream.getvalue()
