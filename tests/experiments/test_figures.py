"""Figures: drawn from what is there, with a note on what is not."""

from pathlib import Path

import pytest

from experiments.figures import draw
from experiments.job import Job
from experiments.records import write_record
from shared.errors import FedGTError
from tests.experiments.jobs import write_made

pytestmark = pytest.mark.slow

matplotlib = pytest.importorskip("matplotlib")


def similarity(clients: int = 20) -> dict[str, object]:
    matrix = [[1.0 if i // 5 == j // 5 else 0.2 for j in range(clients)] for i in range(clients)]
    return {"order": [], "matrices": {"30": matrix, "100": matrix}}


def image(path: Path) -> bool:
    return path.stat().st_size > 2000 and path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "out", "message"),
    [
        ("hyperr", "a.png", "there is no experiment 'hyperr'"),
        ("hyper", "a.jpeg", "is not a figure: end its name in .png, .svg or .pdf"),
        ("statistics", "a.png", "statistics has no figure, only a table"),
        ("hyper", "a.png", "nothing of hyper has been run: fedgt experiment run hyper"),
    ],
)
def test_faults_say_what_to_do(name: str, out: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match=message):
        draw(name, tmp_path, tmp_path / out)
    assert not (tmp_path / out).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("louvain", [Job.of("cora", "louvain", 10, "fedgt", 31)]),
        ("main-disjoint", [Job.of("cora", "disjoint", 5, name, 31) for name in ("fedgt", "gcn")]),
        ("sampling", [Job.of("cora", "disjoint", 10, "fedgt-sampler-attribute", 32)]),
        ("cost", [Job.of("cora", "disjoint", 5, "fedper", 31)]),
        ("convergence", [Job.of("cora", "overlap", 30, "fedgt", seed) for seed in (31, 32)]),
        ("hyper", [Job.of("cora", "disjoint", 10, "fedgt", 31, {"tau": 1.0})]),
        ("ldp", [Job.of("cora", "disjoint", 10, "fedgt-noldp", 31)]),
    ],
)
def test_what_is_there_is_drawn(name: str, jobs: list[Job], tmp_path: Path) -> None:
    for job in jobs:
        write_made(tmp_path, job, 0.8)
    line = draw(name, tmp_path, tmp_path / "figures" / "a.png")
    assert "runs are missing, first " in line
    assert len(line.splitlines()) == 1
    assert image(tmp_path / "figures" / "a.png")


def test_a_heatmap_of_some(tmp_path: Path) -> None:
    facts = {"similarity": similarity(), "config": {"tau": 5.0}}
    write_made(tmp_path, Job.of("cora", "overlap", 20, "fedgt", 31), 0.8, **facts)
    draw("heatmap", tmp_path, tmp_path / "a.svg")
    text = (tmp_path / "a.svg").read_text()
    assert "<svg" in text
    labels = [[10, 1]] * 10 + [[1, 10]] * 10
    job = Job("cora", "overlap", 20, kind="statistics")
    write_record(tmp_path, job, {"labels": labels})
    draw("heatmap", tmp_path, tmp_path / "b.svg")
    assert (tmp_path / "b.svg").read_text() != text


def test_nodes_and_stars(tmp_path: Path) -> None:
    one = {"nodes": [[0.0, 1.0], [1.0, 0.0]], "labels": [0, 1], "global_nodes": [[0.5, 0.5]]}
    job = Job("cora", "disjoint", 10, "fedgt", 31, kind="tsne")
    write_record(tmp_path, job, {"institutions": [one, one]})
    assert draw("tsne", tmp_path, tmp_path / "a.png") == ""
    assert image(tmp_path / "a.png")
