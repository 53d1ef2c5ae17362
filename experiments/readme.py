"""Write the tables and pictures of docs/results.md from the records."""

import re
from pathlib import Path

from experiments.build_tables import build_table
from experiments.figures import draw
from experiments.result_table import markdown
from shared.errors import FedGTError

README = Path(__file__).parents[1] / "docs" / "results.md"

_MARKED = re.compile(r"(<!-- table (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_PICTURE = re.compile(r"\(((?:\.\./)?experiments/pictures/([\w-]+)\.png)\)")
_OPENING = re.compile(r"<!-- table \S* ?-->")


def rewritten(text: str, results: Path) -> str:
    """Return ``text`` with every table between marks rebuilt; all else stays."""
    if len(_OPENING.findall(text)) != len(_MARKED.findall(text)):
        raise FedGTError("a mark '<!-- table NAME -->' has no '<!-- end -->' after it: add it")

    def table(found: re.Match[str]) -> str:
        return f"{found[1]}\n{markdown(build_table(found[2], results))}\n{found[4]}"

    return _MARKED.sub(table, text)


def draw_pictures(text: str, results: Path, folder: Path) -> None:
    """Redraw what ``text`` shows as ``experiments/pictures/NAME.png``, NAME an experiment."""
    for place, name in _PICTURE.findall(text):
        draw(name, results, folder / place)
