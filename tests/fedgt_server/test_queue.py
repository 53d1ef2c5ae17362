"""One run at a time, and none twice."""

from pathlib import Path

import pytest

from fedgt_server.lock import run_lock
from fedgt_server.queue import turn
from shared.errors import FedGTError


def test_a_run_that_is_under_way_is_not_begun_again(tmp_path: Path) -> None:
    """As of two who started it at the same time: the second one has passed every other check."""
    run = tmp_path / "runs" / "one"
    with (
        turn(tmp_path, run),
        run_lock(run),
        pytest.raises(FedGTError, match="the run 'one' is under way already: 'fedgt follow one'"),
        turn(tmp_path, run),
    ):
        raise AssertionError("it began")


def test_after_another_it_is_its_turn(tmp_path: Path) -> None:
    for name in ("one", "two", "one"):
        with turn(tmp_path, tmp_path / "runs" / name), run_lock(tmp_path / "runs" / name):
            assert (tmp_path / "run.lock").read_text() == f"{name}\n"
