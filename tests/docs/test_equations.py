"""The functions that docs/how-it-works.md names beside the paper's equations are there."""

import importlib
import re

import pytest

from tests.docs.documents import ROOT

_ROWS = re.findall(r"`([\w.]+)` in `([\w/]+)\.py`", (ROOT / "docs" / "how-it-works.md").read_text())


def test_the_table_is_read() -> None:
    assert len(_ROWS) >= 12


@pytest.mark.parametrize(("name", "file"), _ROWS)
def test_the_function_is_there(name: str, file: str) -> None:
    folder = "fedgt_client/" if "/" not in file else ""
    found: object = importlib.import_module(f"{folder}{file}".replace("/", "."))
    for part in name.split("."):
        found = getattr(found, part)
    assert callable(found)
