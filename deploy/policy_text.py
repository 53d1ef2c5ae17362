"""``[policy]`` of a node file as text: every key with its meaning, defaults as comments."""

import textwrap
from collections.abc import Mapping
from typing import Any

import tomli_w

from fedgt_client.policy import Policy

_WIDTH = 100
_INTRODUCTION = """\
# What this institution allows. A run that asks for more is refused before the data is opened; the
# coordinator and your log read why. A line with '#' is the default. 'fedgt policy check' compares
# the settings of a run with this file.
"""


def policy_text(given: Mapping[str, Any] | None = None) -> str:
    """Return the table; keys that are not ``given`` are comments with their defaults."""
    defaults = Policy().model_dump(by_alias=True, mode="json")
    lines = [_INTRODUCTION + "[policy]"]
    for name, field in Policy.model_fields.items():
        key = name.replace("_", "-")
        is_given = given is not None and key in given
        value = tomli_w.dumps({key: given[key] if is_given and given else defaults[key]})
        setting = " ".join(value.split()).replace("[ ", "[").replace(", ]", "]")
        meaning = textwrap.wrap(str(field.description), _WIDTH - 2)
        lines += [*(f"# {line}" for line in meaning), setting if is_given else f"# {setting}"]
    return "\n".join(lines) + "\n"
