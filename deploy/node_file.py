"""``node.toml``, which an institution writes: read, and extended by approved hashes."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedgt_client.node import NodeConfig
from shared.errors import FedGTError
from shared.files import atomic_file

NODE_FILE = "node.toml"

_APPROVED = re.compile(r"^approved[ \t]*=[ \t]*\[[^\]]*\][ \t]*", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*\[", re.MULTILINE)


def read_toml(source: Path) -> dict[str, Any]:
    """Read a TOML file of a kit."""
    try:
        return tomllib.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FedGTError(f"{source} is missing: name a kit, made by 'fedgt provision'") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FedGTError(f"{source} is not valid TOML: {error}") from None


def read_node_file(source: Path) -> NodeConfig:
    """Read ``node.toml``; errors name the file."""
    values = read_toml(source)
    try:
        return NodeConfig.parse(values)
    except FedGTError as error:
        raise FedGTError(f"{source}: {error}") from None


def approve(source: Path, found: str) -> bool:
    """Add a hash to those that ``node.toml`` approves; return whether it is new.

    All else in the file stays as the institution wrote it.
    """
    approved = read_node_file(source).approved
    if found in approved:
        return False
    text = source.read_text(encoding="utf-8")
    changed = with_approved(text, [*approved, found])
    if not _has_values(changed, tomllib.loads(text) | {"approved": [*approved, found]}):
        raise FedGTError(f"{source} cannot be changed safely: add {found!r} to 'approved' yourself")
    with atomic_file(source, mode=source.stat().st_mode & 0o777) as staging:
        staging.write_text(changed, encoding="utf-8")
    return True


def with_approved(text: str, hashes: Sequence[str]) -> str:
    """Return the text of a node file with these hashes in place of those that it approves."""
    lines = "".join(f'    "{one}",\n' for one in hashes)
    setting = f"approved = [\n{lines}]"
    if _APPROVED.search(text):
        return _APPROVED.sub(setting, text, count=1)
    # Before the first table: after it, the key would be a key of that table.
    table = _TABLE.search(text)
    before, after = (text[: table.start()], text[table.start() :]) if table else (text, "")
    end = "" if not before or before.endswith("\n") else "\n"
    return f"{before}{end}{setting}\n{after}"


def _has_values(text: str, expected: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:
        return False
