"""Scripts, settings and pages of the kits, from the files in ``templates/``."""

import shlex
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import Any

import tomli_w


class _Page(Template):
    # Not '$', which scripts and compose files use themselves.
    delimiter = "%"


def render(name: str, values: Mapping[str, str]) -> bytes:
    """Return the template ``name`` with ``%{key}`` replaced, quoted where it is a script."""
    if name.endswith(".sh"):
        values = {key: shlex.quote(value) for key, value in values.items()}
    return _Page(_read(name)).substitute(values).encode()


def render_toml(name: str, values: Mapping[str, Any]) -> bytes:
    """Return the comment in the template ``name``, followed by ``values`` as TOML."""
    return (_read(name) + tomli_w.dumps(values)).encode()


def _read(name: str) -> str:
    return files("deploy.provision").joinpath("templates", name).read_text(encoding="utf-8")
