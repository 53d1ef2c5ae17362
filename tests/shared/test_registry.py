"""Lookup by name: unknown names first."""

import pytest

from shared.errors import FedGTError
from shared.registry import import_object, lookup


def test_unknown_name() -> None:
    with pytest.raises(FedGTError, match=r"^colour is 'blue', expected one of red, green$"):
        lookup({"red": 1, "green": 2}, "colour", "blue")
    assert lookup({"red": 1, "green": 2}, "colour", "green") == 2


def test_import_by_path() -> None:
    assert import_object("shared.registry:lookup") is lookup
