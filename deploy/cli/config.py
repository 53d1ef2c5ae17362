"""``fedgt config``: the settings of a run, as Flower takes them."""

import tomli_w

from deploy.cli.output import Json, print_json
from deploy.cli.settings import Preset, Settings, parse_settings
from shared.config import RunConfig


def config(preset: Preset = "default", settings: Settings = None, json: Json = False) -> None:
    """Print every setting with its meaning, as a file for 'flwr run --run-config FILE'."""
    values = RunConfig.build(parse_settings(settings or []), preset=preset).to_flower()
    if json:
        print_json(values)
        return
    for field in RunConfig.model_fields.values():
        print(f"# {field.description}")
        print(tomli_w.dumps({str(field.alias): values[str(field.alias)]}))
