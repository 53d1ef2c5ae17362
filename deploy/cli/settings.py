"""Settings of a run on the command line: ``--set KEY=VALUE``."""

from typing import Annotated

import typer

from shared.config import PRESETS, Scalar
from shared.errors import FedGTError

Preset = Annotated[str, typer.Option(help=f"Settings to start from: {', '.join(PRESETS)}.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting of a run.")
]


def parse_settings(settings: list[str]) -> dict[str, Scalar]:
    """Split ``key=value`` pairs; ``RunConfig`` checks keys and values later."""
    parsed: dict[str, Scalar] = {}
    for setting in settings:
        key, found, value = setting.partition("=")
        if not found:
            raise FedGTError(f"--set {setting}: expected KEY=VALUE")
        parsed[key.strip()] = value.strip()
    return parsed
