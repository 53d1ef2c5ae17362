"""A few hundred mutated inputs for every parser; ``make fuzz`` tries 100,000."""

import logging

import pytest

from tests.fuzz.run import first_finding
from tests.fuzz.targets import TARGETS, Target


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_says_what_is_wrong(name: str) -> None:
    logging.disable(logging.CRITICAL)
    try:
        assert first_finding(TARGETS[name], 300) is None
    finally:
        logging.disable(logging.NOTSET)


def test_a_parser_that_fails_is_found() -> None:
    assert "KeyError" in str(
        first_finding(Target(lambda data: dict[bytes, int]()[data], b"sample"), 3)
    )
