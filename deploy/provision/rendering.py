"""Scripts and pages of the kits, from the files in ``templates/``."""

from collections.abc import Mapping
from importlib.resources import files
from string import Template


class _Page(Template):
    # Not '$': scripts are full of them.
    delimiter = "%"


def render(name: str, values: Mapping[str, str]) -> bytes:
    """The template ``name`` with ``%{key}`` replaced."""
    source = files("deploy.provision").joinpath("templates", name).read_text(encoding="utf-8")
    return (source if not values else _Page(source).substitute(values)).encode()
