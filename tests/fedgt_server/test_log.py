"""What of Flower's log a coordinator reads."""

import logging

import pytest

from fedgt_server.app import OneLine
from shared.errors import FedGTError


def record(text: str, error: Exception | None = None) -> logging.LogRecord:
    info = (type(error), error, None) if error else None
    return logging.LogRecord("flwr", logging.ERROR, "", 0, text, (), info)


def test_an_error_of_the_users_is_a_line_and_no_more() -> None:
    failed = record("ServerApp failed with exception", FedGTError("the folder is gone"))
    assert OneLine().filter(failed)
    assert (failed.getMessage(), failed.exc_info) == ("the run failed: the folder is gone", None)
    assert not OneLine().filter(record("Exit Code: 201\nAn unhandled exception\n\nFor more …"))


@pytest.mark.parametrize("error", [None, ValueError("of ours")])
def test_all_else_stays(error: Exception | None) -> None:
    other = record("something else", error)
    assert OneLine().filter(other)
    assert other.getMessage() == "something else"
    assert bool(other.exc_info) == bool(error)
