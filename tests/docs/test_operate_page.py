"""Every fault on the page of operators names a test that is there."""

import re

import pytest

from tests.docs.documents import ROOT
from tests.docs.test_commands import files_of_tests

_PAGE = (ROOT / "docs" / "operate.md").read_text()
_ROWS = [line for line in _PAGE.partition("## Faults")[2].splitlines() if line.startswith("| ")][
    2:
]  # after the headings


def test_there_are_rows() -> None:
    assert len(_ROWS) > 20


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row.split("|")[1].strip())
def test_a_fault_has_a_test(row: str) -> None:
    fault, seen, _, named = (cell.strip() for cell in row.strip("|").split(" | "))
    assert fault
    assert seen
    found = re.fullmatch(r"(`faults/` )?(test_\w+)", named.strip(" |"))
    assert found, named
    file = files_of_tests()[found[2]]
    assert bool(found[1]) == (file.parent.name == "faults"), file
