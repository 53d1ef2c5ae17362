"""Fenced blocks of the documents, and the comments before them that say how each is tested."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "experiments" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
SHELLS = ("bash", "sh", "console")

_FENCE = re.compile(r"^```(?P<info>.*)\n(?P<text>(?:.*\n)*?)```$", re.MULTILINE)
_COMMENT = re.compile(r"<!-- (test|file): (.*?) -->\s*\Z")
_REPLACED = re.compile(r'with "([^"]+)" as "([^"]+)"')
_PAGE_COMMENT = re.compile(r"<!-- test all: (.*?) -->")


@dataclass(frozen=True)
class Block:
    """A fenced block, with the comment before it, or else that of its whole page."""

    document: Path
    line: int
    language: str
    text: str
    test: str  # how its commands are tested; empty: not said
    file: str  # name under which a reader saves it; empty: it is no file

    @property
    def name(self) -> str:
        """Return where the block is, for messages and test ids."""
        return f"{self.document.relative_to(ROOT)}:{self.line}"

    def commands(self) -> str:
        """Return the text with what its comment replaces to keep the test short."""
        text = self.text
        for old, new in _REPLACED.findall(self.test):
            assert old in text, f"{self.name} does not contain '{old}'"
            text = text.replace(old, new)
        return text


def blocks(document: Path) -> list[Block]:
    """Return all fenced blocks of a document, in order."""
    page = document.read_text()
    whole = found[1] if (found := _PAGE_COMMENT.search(page)) else ""
    result = []
    for fence in _FENCE.finditer(page):
        before = page[: fence.start()]
        comment = _COMMENT.search(before)
        kind, value = (comment[1], comment[2]) if comment else ("", "")
        result.append(
            Block(
                document=document,
                line=before.count("\n") + 1,
                language=fence["info"].partition(" ")[0],
                text=fence["text"],
                test=value if kind == "test" else whole,
                file=value if kind == "file" else "",
            )
        )
    return result
