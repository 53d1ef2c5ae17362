"""What a run shows while institutions prepare."""

import io
import logging

import pytest
from rich.console import Console

from deploy.cli.progress import round_progress
from fedgt_client.preprocess.progress import logger


@pytest.mark.parametrize("terminal", [True, False])
def test_a_long_preparation_is_shown_once(terminal: bool, caplog: pytest.LogCaptureFixture) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100)
    with round_progress(console, "fedgt", 3, show=True):
        logger.info("preparing: PPR 40 %, 12 s left")
    assert stream.getvalue().count("PPR 40 %, 12 s left") == 1
    assert not caplog.messages  # the root logger's handlers do not show it too


def test_nothing_is_shown_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    with round_progress(Console(file=stream), "fedgt", 3, show=False):
        assert not logger.isEnabledFor(logging.INFO)
        logger.info("preparing: PPR 40 %, 12 s left")
    assert stream.getvalue() == ""
    assert capsys.readouterr().err == ""


def test_a_warning_of_every_round_is_printed_once() -> None:
    stream = io.StringIO()
    with round_progress(Console(file=stream, width=100), "fedgt", 3, show=True):
        for number in range(3):
            logger.info("round %d: bank-a: kept its own model", number)
        logger.info("bank-b: kept its own model")
    assert stream.getvalue().count("kept its own model") == 2
