"""The README's tables are those of the committed records, and of nothing else."""

import re
from pathlib import Path

import pytest

from experiments.grids import EXPERIMENTS
from experiments.job import Job
from experiments.protocol import FAMILIES
from experiments.readme import README, draw_pictures, rewritten
from experiments.records import RESULTS, read_record
from experiments.trials import trial_jobs
from shared.errors import FedGTError
from tests.experiments.jobs import write_made

pytestmark = pytest.mark.slow

TEXT = "before\n\n<!-- table louvain -->\nold\n<!-- end -->\n\nafter\n"


@pytest.mark.parametrize("text", ["<!-- table louvain -->\n", "<!-- table  -->\n<!-- end -->"])
def test_a_mark_without_an_end(text: str, tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="has no '<!-- end -->'"):
        rewritten(text, tmp_path)


def test_a_table_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="there is no experiment 'louvian'"):
        rewritten("<!-- table louvian -->\n<!-- end -->", tmp_path)


def test_only_what_is_between_marks_changes(tmp_path: Path) -> None:
    write_made(tmp_path, Job.of("cora", "louvain", 10, "fedgt", 31), 0.8)
    once = rewritten(TEXT, tmp_path)
    assert once.startswith("before\n\n<!-- table louvain -->\n\n| method |")
    assert once.endswith("<!-- end -->\n\nafter\n")
    assert "old" not in once
    assert "80.00 (87.29)" in once
    assert rewritten(once, tmp_path) == once
    write_made(tmp_path, Job.of("cora", "louvain", 10, "fedgt", 31), 0.9)
    assert rewritten(once, tmp_path) != once


def test_pictures_are_drawn_where_the_text_shows_them(tmp_path: Path) -> None:
    write_made(tmp_path, Job.of("cora", "louvain", 10, "fedgt", 31), 0.8)
    text = "![Louvain](experiments/pictures/louvain.png) and ![other](elsewhere/heatmap.png)"
    draw_pictures(text, tmp_path, tmp_path / "project")
    drawn = [path for path in (tmp_path / "project").rglob("*") if path.is_file()]
    assert drawn == [tmp_path / "project/experiments/pictures/louvain.png"]
    assert drawn[0].read_bytes().startswith(b"\x89PNG")


def test_every_picture_of_the_readme_is_there() -> None:
    earlier = README.with_name("earlier-results.md")
    shown = re.findall(r"!\[.*?\]\((.+?)\)", README.read_text() + earlier.read_text())
    assert shown
    assert all((README.parent / place).is_file() for place in shown)


@pytest.mark.parametrize(
    ("page", "tables"),
    [
        (README, ("main-disjoint", "main-overlap")),
        (README.parents[1] / "README.md", ("main-disjoint/finished",)),
    ],
)
def test_pages_agree_with_the_committed_records(page: Path, tables: tuple[str, ...]) -> None:
    text = page.read_text()
    assert all(f"<!-- table {name} -->" in text for name in tables)
    assert rewritten(text, RESULTS) == text, "run 'make docs'"


def test_committed_records_are_whole_and_asked_for() -> None:
    jobs = [job for item in EXPERIMENTS.values() for job in item.jobs]
    jobs += [job for family in FAMILIES for job in trial_jobs(family)]
    names = {f"{job.name}.json" for job in jobs}
    for path in sorted(RESULTS.glob("*/*/*.json")):
        record = read_record(path)
        assert record is not None, path
        assert str(path.relative_to(RESULTS)) in names
        text = path.read_text()
        for place in ('"/', "/tmp/", "/home/", "/root/"):
            assert place not in text, path
