"""``fedgt config``: the settings of a run, as Flower takes them."""

from typing import Annotated

import typer

from deploy.cli.output import Json, print_json
from deploy.cli.run import parse_settings
from deploy.cli.settings_page import settings_page
from deploy.settings import resolve_settings
from shared.config import PRESETS, RunConfig


def config(
    preset: Annotated[
        str, typer.Option(help=f"Settings to start from: {', '.join(PRESETS)}.")
    ] = "default",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting of a run.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/settings.md.")
    ] = False,
    json: Json = False,
) -> None:
    """Print every setting with its meaning, as a file for 'flwr run --run-config FILE'."""
    if markdown:
        print(settings_page(), end="")
        return
    chosen = resolve_settings(parse_settings(settings or []), preset=preset)
    if json:
        print_json(chosen.to_flower())
        return
    for name, field in RunConfig.model_fields.items():
        print(f"# {field.description}")
        print(f"{field.alias} = {_toml(getattr(chosen, name))}\n")


def _toml(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)
