"""A check that is put into Flower must not vanish with a new release of it."""

from types import ModuleType

import pytest

from deploy.flower.patching import replace
from shared.errors import FedGTError


def test_what_is_not_there_cannot_be_replaced() -> None:
    flower = ModuleType("flwr.example")
    with pytest.raises(FedGTError, match=r"flwr\.example has no verify: FedGT does not fit"):
        replace(flower, verify=len)
    assert not hasattr(flower, "verify")


def test_replacing() -> None:
    flower = ModuleType("flwr.example")
    flower.verify = max  # type: ignore[attr-defined]
    replace(flower, verify=len)
    assert flower.verify is len
