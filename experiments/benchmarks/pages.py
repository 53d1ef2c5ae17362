"""Write the tables of docs/performance.md, scale.md and security.md from committed results."""

import re
from collections.abc import Callable
from pathlib import Path

from experiments.benchmarks import goals, projection
from experiments.benchmarks.attack_tables import attack_tables
from experiments.benchmarks.report import Report, as_text, markdown
from experiments.benchmarks.results import load
from shared.errors import FedGTError

DOCUMENTS = Path(__file__).parents[2] / "docs"
PAGES = tuple(DOCUMENTS / f"{name}.md" for name in ("performance", "scale", "security"))

_MARKED = re.compile(r"(<!-- bench (\S+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
_INSTITUTIONS, _NODES, _FEATURES = 10_000, 100_000_000, 128


def rewritten(text: str, folder: Path) -> str:
    """Return ``text`` with everything between marks made anew; all else stays."""
    if text.count("<!-- bench ") != len(_MARKED.findall(text)):
        raise FedGTError("a mark '<!-- bench NAME -->' has no '<!-- end -->' after it: add it")

    def part(found: re.Match[str]) -> str:
        return f"{found[1]}\n{_part(found[2], folder)}\n{found[4]}"

    return _MARKED.sub(part, text)


def _part(name: str, folder: Path) -> str:
    made: dict[str, Callable[[Path], str]] = {
        "attacks": lambda at: attack_tables(at / "attacks.jsonl"),
        "goals": lambda at: markdown(goals.HEADINGS, [goal.row(at) for goal in goals.GOALS]),
        "constants": lambda at: markdown(
            ["constant", "measured"], projection.measured_constants(at).rows()
        ),
        "institutions": lambda at: _terms(
            projection.measured_constants(at).institutions(_INSTITUTIONS)
        ),
        "nodes": lambda at: _terms(projection.measured_constants(at).nodes(_NODES, _FEATURES)),
    }
    if name in made:
        return made[name](folder)
    report = load(folder, name)
    return _report(report) if report else "Not measured yet.\n"


def _terms(terms: list[projection.Term]) -> str:
    return markdown(projection.HEADINGS, [term.row() for term in terms])


def _report(report: Report) -> str:
    """Return all tables of a report, its notes, and where it was measured."""
    parts = [f"`{report.command}`\n"]
    parts += [
        f"{table.title}:\n\n{markdown(table.headings(), table.texts())}"
        for table in report.tables
        if table.rows
    ]
    facts = report.machine
    place = (
        f"{facts['processor']}, {as_text(facts['cores'])} cores, "
        f"{as_text(facts['memory_gib'])} GiB, torch {facts['torch']}, "
        f"load {as_text(facts['load'])} before."
    )
    return "\n".join([*parts, "\n".join([*report.notes, place]) + "\n"])
