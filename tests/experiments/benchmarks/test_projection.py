"""Larger federations and graphs, computed from round numbers."""

from pathlib import Path

import pytest

from experiments.benchmarks.projection import Constants, Term, measured_constants
from shared.errors import FedGTError
from tests.experiments.benchmarks.reports import save

CONSTANTS = Constants(
    ppr_s=1e-3,
    encoding_s=1e-5,
    prepared_bytes=500,
    prepare_bytes=600,
    round_s=1e-4,
    peak_bytes=2000,
    base_bytes=1e9,
    up=1e6,
    down=1.5e6,
    parameters=1e5,
    average_s=1e-12,
    compare_s=1e-6,
    keep_bytes=8,
    pair_bytes=800,
)


def test_results_that_lack_a_benchmark_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="lacks results for this page: prepare, scale"):
        measured_constants(tmp_path)


def test_ten_thousand_institutions() -> None:
    terms = {term.title: term for term in CONSTANTS.institutions(10_000)}
    assert terms["averages, one core"].cost == pytest.approx(10)  # 1e-12 · 1e8 · 1e5
    assert terms["comparison, one core"].cost == pytest.approx(100)
    assert terms["memory for models and updates"].cost == pytest.approx(8)
    assert terms["memory for pairs"].cost == pytest.approx(80)
    assert terms["bytes of a round over 1 Gbit/s"].cost == pytest.approx(200)  # 25 GB
    loads = [term.load for term in CONSTANTS.institutions(10_000)]
    assert loads == sorted(loads, reverse=True)


def test_a_hundred_million_nodes() -> None:
    terms = {term.title: term for term in CONSTANTS.nodes(1e8, 128)}
    assert terms["PPR, one core"].cost == pytest.approx(1e5)
    assert terms["memory of training and evaluation"].cost == pytest.approx(201)
    assert terms["features on disk"].cost == pytest.approx(51.2)
    assert terms["a round, one core"].cost == pytest.approx(1e4)
    assert terms["bytes of a round over 1 Gbit/s"].cost == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("term", "shown"),
    [
        (Term("a", "n", 7200.0, 3600.0, "s"), ["a", "n", "2 h", "2×"]),
        (Term("a", "n", 30.0, 600.0, "s"), ["a", "n", "30 s", "0.05×"]),
        (Term("a", "n", 2500.0, 1000.0, "GB"), ["a", "n", "2.5 TB", "2.5×"]),
    ],
)
def test_rows(term: Term, shown: list[str]) -> None:
    assert term.row() == shown


def test_constants_from_results(tmp_path: Path) -> None:
    save(
        tmp_path,
        "prepare",
        "costs",
        _prepared("communities", 1000, 1.0),
        _prepared("communities", 4000, 2.0),
        _prepared("chain", 9000, 90.0),
    )
    save(
        tmp_path,
        "scale",
        "sizes",
        {"nodes": 1000, "round_cpu": 1.0, "peak_mb": 500.0, "start_mb": 300.0},
        {"nodes": 3000, "round_cpu": 6.0, "peak_mb": 504.0, "start_mb": 300.0},
    )
    save(tmp_path, "wire", "messages", {"method": "FedGT", "up": 10, "down": 20, "parameters": 5})
    # 1e-9 s · M² P + 1e-6 s · M², 8 bytes · M P + 100 bytes · M².
    save(
        tmp_path,
        "server",
        "cases",
        {"institutions": 100, "parameters": 1000, "cpu": 0.01 + 0.01, "peak_mb": 0.8 + 1.0},
        {"institutions": 10, "parameters": 5000, "cpu": 0.0005 + 0.0001, "peak_mb": 0.4 + 0.01},
    )
    found = measured_constants(tmp_path)
    assert found.ppr_s == 2.0 / 4000  # the largest graph with communities
    assert found.prepare_bytes == 3e6 / 4000
    assert found.round_s == 6.0 / 3000
    assert found.peak_bytes == pytest.approx(4e6 / 2000)
    assert (found.up, found.down, found.parameters) == (10, 20, 5)
    assert found.average_s == pytest.approx(1e-9)
    assert found.compare_s == pytest.approx(1e-6)
    assert found.keep_bytes == pytest.approx(8)
    assert found.pair_bytes == pytest.approx(100)


def _prepared(graph: str, nodes: int, cpu: float) -> dict[str, str | int | float | None]:
    return {
        "graph": graph,
        "nodes": nodes,
        "ppr_cpu": cpu,
        "encoding_cpu": cpu / 10,
        "output_bytes": 544,
        "ppr_mb": 3.0,
        "encoding_mb": 1.0,
    }
