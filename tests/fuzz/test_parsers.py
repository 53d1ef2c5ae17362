"""A few hundred mutated inputs for every parser; ``make fuzz`` tries 100,000."""

import logging
import os
import subprocess
import sys
from pathlib import Path

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


@pytest.mark.slow
def test_nothing_is_left_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz.run", "--cases", "2", "--only", "ledger"]
    subprocess.run(command, check=True, env=os.environ | {"TMPDIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []
