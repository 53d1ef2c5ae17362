"""The operator's page, block by block."""

import re
from dataclasses import dataclass
from pathlib import Path

from deploy.cli.commands import command_group

PAGE = Path(__file__).parents[2] / "docs" / "deployment.md"

_BLOCK = re.compile(r"^```(\S*) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, where it belongs, its text."""

    language: str
    where: tuple[str, ...]
    text: str


def blocks() -> list[Block]:
    return [
        Block(language, tuple(where.split()), text)
        for language, where, text in _BLOCK.findall(PAGE.read_text())
    ]


def command_names() -> set[str]:
    """Return the commands of ``fedgt``."""
    return set(command_group().commands)
