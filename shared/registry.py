"""Registries: what a setting names, found by name."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, TypeVar

from shared.errors import FedGTError

Entry = TypeVar("Entry")


def lookup(registry: Mapping[str, Entry], setting: str, name: str) -> Entry:
    """Return the entry called ``name``.

    Raises
    ------
    FedGTError
        In one line that names the setting, the value seen and the known names.
    """
    if name not in registry:
        raise FedGTError(f"{setting} is '{name}', expected one of {', '.join(registry)}")
    return registry[name]


def import_object(path: str) -> Any:
    """Import what ``module:name`` stands for.

    A registry of such paths imports only the entry that is used.
    """
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
