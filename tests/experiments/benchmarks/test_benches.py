"""Every benchmark runs on tiny inputs and reports its ratios."""

import json
import sys

import pytest

from deploy.cli import main
from experiments.benchmarks import cli
from experiments.benchmarks.report import Report, Row, number
from shared.errors import FedGTError

pytestmark = pytest.mark.slow


def bench(capsys: pytest.CaptureFixture[str], *arguments: str) -> Report:
    """Run a benchmark with --json and parse its output."""
    cli.app([*arguments, "--json"], standalone_mode=False)
    return Report.model_validate_json(capsys.readouterr().out)


def by(rows: tuple[Row, ...], key: str) -> dict[str, Row]:
    return {str(row[key]): row for row in rows}


def positive(row: Row, *keys: str) -> bool:
    return all(number(row, key) > 0 for key in keys)


@pytest.mark.parametrize("case", ["400", "x", "0x5", "400x", "axb"])
def test_a_wrong_case_is_one_line(case: str) -> None:
    with pytest.raises(FedGTError, match=f"--case is '{case}', expected two counts"):
        cli.parse_case(case)


def test_the_command_of_another_package_is_found_or_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["fedgt", "bench", "server", "--case", "nothing"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_prepare(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.benchmarks import prepare

    monkeypatch.setattr(prepare, "COMPARED", (("communities", 200),))
    report = bench(capsys, "prepare", "--kind", "social", "--nodes", "300")
    costs, peers = report.table("costs").rows, report.table("peers").rows
    assert [(row["graph"], row["nodes"]) for row in costs] == [
        ("communities", 200),
        ("social", 300),
    ]
    assert all(positive(row, "ppr_cpu", "ppr_ms", "encoding_cpu", "output_bytes") for row in costs)
    assert all(positive(row, "of_inverse", "of_get_ppr") for row in peers)
    assert all(0.9 < number(row, "quality") <= 1.0001 for row in peers)
    assert all(0.9 < number(row, "get_ppr_quality") <= 1.0001 for row in peers)
    assert report.command == "fedgt bench prepare --kind social --nodes 300"


def test_epoch(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from experiments.benchmarks import epoch

    monkeypatch.setattr(epoch, "find_raw_files", lambda _: None)  # as where Cora is not found
    report = bench(capsys, "epoch", "--repeats", "1", "--rounds", "2")
    methods = by(report.table("rounds").rows, "method")
    assert list(methods) == ["FedGT", "FedAvg-GraphSAGE", "PyG SAGEConv, full batch"]
    assert methods["FedAvg-GraphSAGE"]["of_fedavg"] == 1.0
    assert all(positive(row, "round_ms", "train_ms", "of_pyg") for row in methods.values())
    runs = by(report.table("runs").rows, "method")
    assert runs["FedGT"]["data"] == "consortium/5"
    assert positive(runs["FedGT"], "of_fedavg")


def test_scale(capsys: pytest.CaptureFixture[str]) -> None:
    report = bench(capsys, "scale", "--nodes", "200", "--nodes", "400")
    rows = report.table("sizes").rows
    assert [row["nodes"] for row in rows] == [200, 400]
    for row in rows:
        assert positive(row, "cpu", "ms", "open_cpu", "round_cpu", "start_mb")
        assert number(row, "peak_mb") >= number(row, "start_mb")


def test_wire(capsys: pytest.CaptureFixture[str]) -> None:
    rows = by(bench(capsys, "wire", "--rounds", "2").table("messages").rows, "method")
    plain, ours = rows["FedAvg-GraphSAGE, plain float32"], rows["FedGT"]
    parameters = 1433 * 128 * 2 + 128 + 128 * 7 * 2 + 7
    assert plain["parameters"] == parameters
    assert 4 * parameters < number(plain, "up") < 4.1 * parameters
    assert number(ours, "up_of_float32") == number(ours, "up") / number(plain, "up")
    assert number(ours, "down_of_float32") == number(ours, "down") / number(plain, "down")
    assert positive(ours, "encode_ms", "decode_ms")


def test_server(capsys: pytest.CaptureFixture[str]) -> None:
    rows = bench(capsys, "server", "--case", "6x500", "--case", "9x200").table("cases").rows
    assert [(row["institutions"], row["parameters"]) for row in rows] == [(6, 500), (9, 200)]
    assert all(positive(row, "cpu", "product_cpu", "of_product", "journal_mb") for row in rows)
    nodes = 2 * 10 * 64
    assert rows[0]["updates_mb"] == 6 * (500 + nodes) * 4 / 1e6


def test_round(capsys: pytest.CaptureFixture[str]) -> None:
    report = bench(capsys, "round", "--rounds", "2", "--dataset", "consortium")
    runs = by(report.table("runs").rows, "run")
    assert positive(runs["FedGT"], "cpu", "first_cpu", "round_ms", "of_no_op")
    assert runs["no-op clients"]["of_no_op"] == 1.0
    assert all(row["data"] == "consortium/10" for row in runs.values())


def test_social(capsys: pytest.CaptureFixture[str]) -> None:
    (row,) = bench(capsys, "social", "--nodes", "100", "--nodes", "150").table("run").rows
    assert (row["institutions"], row["nodes"]) == (2, 250)
    assert positive(row, "links", "wall", "cpu", "peak_mb", "import")


def test_import(capsys: pytest.CaptureFixture[str]) -> None:
    rows = bench(capsys, "import", "--nodes", "50", "--edges", "200").table("formats").rows
    assert [row["format"] for row in rows] == ["csv", "parquet"]
    assert all(positive(row, "wall", "peak_mb") for row in rows)


def test_the_terminal_shows_tables_and_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    cli.app(["server", "--case", "3x10"], standalone_mode=False)
    shown = capsys.readouterr()
    assert "Aggregation of a round" in shown.out
    assert "cores, torch" in shown.err
    assert "3 institutions, 10 parameters" in shown.err  # progress


def test_json_is_the_only_output(capsys: pytest.CaptureFixture[str]) -> None:
    cli.app(["server", "--case", "3x10", "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["bench"] == "server"
