"""What a command shows while it works."""

import io
import logging

import pytest
from rich.console import Console

from deploy.cli.steps import show_steps


def test_the_preparation_of_a_graph_is_shown_with_the_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr("deploy.cli.steps.status_console", console)
    logger = logging.getLogger("fedgt_client.preprocess.progress")
    with show_steps(quiet=False) as step:
        step("scoring 9 nodes")
        logger.info("preparing: %s %.0f %%, %.0f s left", "PageRank", 40, 7)
    assert "PageRank 40 %, 7 s left" in screen.getvalue()
    screen.truncate(0)
    logger.info("preparing: %s", "another")
    assert "another" not in screen.getvalue()
    assert not logging.getLogger("fedgt_client.preprocess").handlers


def test_long_jobs_without_a_terminal_leave_lines_in_a_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log, clock = io.StringIO(), [100.0]
    monkeypatch.setattr("deploy.cli.steps.status_console", Console(file=log, width=40))
    monkeypatch.setattr("deploy.cli.steps.time.monotonic", lambda: clock[0])
    with show_steps(quiet=False) as step:
        for text in ("opening", "attaching", "scoring [all] nodes", "writing", "writing: 65,536"):
            step(text)
            clock[0] += 20.0
    assert log.getvalue() == "scoring [all] nodes\nwriting: 65,536\n"
    with show_steps(quiet=True) as step:
        clock[0] += 60.0
        step("writing again")
    assert "again" not in log.getvalue()
