"""Every fault on the page of operators names a test that is there, and says what is really said."""

import ast
import re
from functools import cache

import pytest

from tests.docs.documents import ROOT
from tests.docs.test_commands import files_of_tests

_PAGE = (ROOT / "docs" / "operate.md").read_text()
_ROWS = [line for line in _PAGE.partition("## Faults")[2].splitlines() if line.startswith("| ")][
    2:
]  # after the headings
_PACKAGES = ("deploy", "fedgt_client", "fedgt_server", "shared")
_GAP = "\0"  # what differs from one time to the next
_EXAMPLES = re.compile(
    r"…|\bbank-[ab]\b|\bone\b|\bth?reads\b|\b\d+\b|%[sd]"
    r"|No space left on device|Address already in use"  # the system's own words
)


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split(" | ")]


def _quotes() -> list[str]:
    return [quote for row in _ROWS for quote in re.findall(r'"([^"]+)"', _cells(row)[1])]


@cache
def _said() -> str:
    """Return all texts of the programs and of the kits' scripts, with gaps for values."""
    texts = []
    for package in _PACKAGES:
        for source in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(source.read_text())):
                if isinstance(node, ast.JoinedStr):
                    parts = (p.value if isinstance(p, ast.Constant) else _GAP for p in node.values)
                    texts.append("".join(map(str, parts)))
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.append(node.value)
    texts += [path.read_text() for path in (ROOT / "deploy" / "provision").rglob("*.sh*")]
    return "\n".join(_with_gaps(text) for text in texts)


def _with_gaps(text: str) -> str:
    return re.sub(rf"('?{_GAP}'?)+", _GAP, _EXAMPLES.sub(_GAP, text))


def test_there_are_rows() -> None:
    assert len(_ROWS) > 20
    assert len(_quotes()) > 15


@pytest.mark.parametrize("quote", _quotes())
def test_what_is_seen_is_said(quote: str) -> None:
    assert _with_gaps(quote).strip(f"{_GAP} ,") in _said()


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row.split("|")[1].strip())
def test_a_fault_has_a_test(row: str) -> None:
    fault, seen, _, named = _cells(row)
    assert fault
    assert seen
    found = re.fullmatch(r"(`faults/` )?(test_\w+)", named)
    assert found, named
    file = files_of_tests()[found[2]]
    assert bool(found[1]) == (file.parent.name == "faults"), file
