"""Functions of Flower's programs, replaced by our own."""

from importlib import import_module
from typing import Any

from shared.errors import FedGTError


def module(name: str) -> Any:
    """Return a module of Flower; some have the name of a function beside them."""
    return import_module(name)


def replace(module: Any, **functions: Any) -> None:
    """Replace functions of a module, which must be there: or a check would silently be gone."""
    for name, function in functions.items():
        if not hasattr(module, name):
            raise FedGTError(
                f"{module.__name__} has no {name}: FedGT does not fit this release of Flower"
            )
        setattr(module, name, function)
