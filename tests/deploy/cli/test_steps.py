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
