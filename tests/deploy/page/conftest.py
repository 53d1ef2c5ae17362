"""The browser of all tests of pages."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.browser import launched


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launched() as started:
        yield started
