"""Whose kit a folder is in."""

import tomllib
from pathlib import Path

_KIT_FILE = "kit.toml"


def kit_owner(folder: Path) -> str:
    """Return the institution whose kit ``folder`` is in, however deep; empty outside of kits."""
    for parent in folder.absolute().parents:
        try:
            facts = tomllib.loads((parent / _KIT_FILE).read_text(encoding="utf-8"))
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
            continue
        return str(facts.get("institution", ""))
    return ""
