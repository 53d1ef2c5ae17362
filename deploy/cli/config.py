"""``fedgt config``: the settings of a run, as Flower takes them."""

from typing import Annotated

import tomli_w
import typer

from deploy.cli.output import Json, print_json
from deploy.cli.settings import Preset, Settings, parse_settings
from deploy.cli.settings_page import settings_page
from deploy.settings import resolve_settings
from shared.config import RunConfig


def config(
    preset: Preset = "default",
    settings: Settings = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/settings.md.")
    ] = False,
    json: Json = False,
) -> None:
    """Print all settings with their meaning.

    As a TOML file, for run.toml of a kit and for 'flwr run --run-config FILE'.
    """
    if markdown:
        print(settings_page(), end="")
        return
    values = resolve_settings(parse_settings(settings or []), preset=preset).to_flower()
    if json:
        print_json(values)
        return
    for field in RunConfig.model_fields.values():
        print(f"# {field.description}")
        print(tomli_w.dumps({str(field.alias): values[str(field.alias)]}))
