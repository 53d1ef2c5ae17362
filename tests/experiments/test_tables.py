"""Tables: what has not been run stays empty, and the numbers are those of the records."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from deploy.settings import resolve_settings
from experiments.build_tables import build_table
from experiments.comparison_tables import holm, paired_p
from experiments.grids import experiment
from experiments.group_table import last_matrix, rand_index
from experiments.job import Job
from experiments.paper_values import PAPER
from experiments.records import without_places, write_record
from experiments.result_table import Column, Entry, Row, Table, comma_separated, markdown
from shared.errors import FedGTError
from tests.experiments.jobs import made_run, write_made


def cells(text: str, label: str) -> list[str]:
    """Return the cells of the row with ``label`` in a table of Markdown."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def louvain(results: Path, accuracies: dict[str, dict[str, list[float]]]) -> str:
    """Return the table of records made by dataset and variant, one for each seed."""
    for dataset, rows in accuracies.items():
        for name, values in rows.items():
            for seed, value in enumerate(values, 31):
                write_made(results, Job.of(dataset, "louvain", 10, name, seed), value)
    return markdown(build_table("louvain", results))


def test_no_such_table(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match="there is no experiment 'louvian'"):
        build_table("louvian", tmp_path)
    with pytest.raises(FedGTError, match="tsne has no table, only a figure"):
        build_table("tsne", tmp_path)


def test_nothing_run_is_empty_beside_the_paper(tmp_path: Path) -> None:
    text = louvain(tmp_path, {})
    assert cells(text, "FedGT") == ["– (87.29)", "– (74.21)", "– (87.95)", "–"]
    assert "**" not in text
    assert "0 of 156 runs are finished" in text


def test_mean_deviation_and_seeds_by_hand(tmp_path: Path) -> None:
    text = louvain(tmp_path, {"cora": {"fedgt": [0.80, 0.82, 0.84], "fedpub": [0.81]}})
    # Deviation of a sample: sqrt((4 + 0 + 4) / 2) = 2.
    assert cells(text, "FedGT") == [
        "**82.00** ± 2.00 (87.29)",
        "– (74.21)",
        "– (87.95)",
        "**82.00** (87.29)",
        "3",
    ]
    assert cells(text, "FED-PUB")[0] == "81.00 (86.78)"
    assert cells(text, "FED-PUB")[-1] == "1"
    assert "The average is over the cells that all rows have: Cora, 10." in text


def test_the_average_is_of_cells_that_all_rows_have(tmp_path: Path) -> None:
    text = louvain(
        tmp_path,
        {
            "cora": {"fedgt": [0.8], "fedpub": [0.7]},
            "citeseer": {"fedgt": [0.6], "fedpub": [0.7]},
            "pubmed": {"fedgt": [0.1]},
        },
    )
    assert "average of 2" in text
    # The paper's average is of the same cells.
    assert cells(text, "FedGT")[3] == f"**70.00** ({(87.29 + 74.21) / 2:.2f})"
    # Equal to the digit that is shown: both are the best.
    assert cells(text, "FED-PUB")[3].startswith("**70.00**")
    assert cells(text, "FedGT")[1].startswith("60.00")
    assert cells(text, "FED-PUB")[1].startswith("**70.00**")


def test_a_record_of_another_request_is_not_shown(tmp_path: Path) -> None:
    job = Job("cora", "louvain", 10, "fedgt", 31, rounds=7)
    write_made(tmp_path, job, 0.9)
    assert cells(markdown(build_table("louvain", tmp_path)), "FedGT")[0] == "– (87.29)"


def test_every_experiment_but_tsne_has_a_table_of_nothing(tmp_path: Path) -> None:
    for name in (
        "main-disjoint",
        "main-overlap",
        "unbalanced",
        "similarity",
        "ablation",
        "conflict",
        "masks",
        "sampling",
        "hyper",
        "ldp",
        "cost",
        "heatmap",
        "convergence",
        "statistics",
        "preprocessing",
    ):
        table = build_table(name, tmp_path)
        assert table.rows
        for row in table.rows:
            assert len(row.entries) == len(table.columns)
            assert all(entry.mean is None for entry in row.entries)


def test_groups_in_a_similarity_are_compared_with_the_true_ones() -> None:
    """Institutions 0, 2, 4 are one group, 1, 3, 5 the other."""
    alike = np.equal.outer(np.arange(6) % 2, np.arange(6) % 2)
    assert rand_index(np.where(alike, 0.6, 0.1)) == 1.0
    halves = np.equal.outer(np.arange(6) < 3, np.arange(6) < 3)  # two right, one wrong, each
    assert rand_index(np.where(halves, 0.6, 0.1)) == pytest.approx(-1 / 9)
    assert last_matrix({"9": [[0.0]], "30": [[1.0]]}).tolist() == [[1.0]]


def test_groups_are_a_table_of_the_conflict(tmp_path: Path) -> None:
    table = build_table("conflict/groups", tmp_path)
    assert "FedGT" in [row.label for row in table.rows]
    assert "FedAvg" not in [row.label for row in table.rows]


def test_csv_has_a_line_for_each_cell_and_nothing_for_what_is_not_there(tmp_path: Path) -> None:
    louvain(tmp_path, {"cora": {"fedgt": [0.8]}})
    lines = list(csv.DictReader(io.StringIO(comma_separated(build_table("louvain", tmp_path)))))
    found = {(line["row"], line["column"]): line for line in lines}
    assert float(found["FedGT", "Cora, 10"]["mean"]) == pytest.approx(80.0)
    assert found["FedGT", "Cora, 10"]["paper"] == "87.29"
    assert found["FedGT", "Cora, 10"]["paper deviation"] == "0.25"
    assert found["FED-PUB", "Cora, 10"]["mean"] == ""
    assert found["FED-PUB", "Cora, 10"]["seeds"] == "0"


def test_lowest_can_be_best() -> None:
    rows = (Row("a", (Entry(2.0, None, 1),)), Row("b", (Entry(1.0, None, 1),)))
    table = Table("t", "row", (Column("seconds", 1, "lowest"),), rows)
    assert [line[1] for line in table.texts(bold=("<", ">"))] == ["2.0", "<1.0>"]


def test_cost_is_a_share_of_fedavg(tmp_path: Path) -> None:
    sent = {"up": 6000, "down": 2000, "uploads": None}
    write_made(tmp_path, Job.of("cora", "disjoint", 5, "fedgt", 31), 0.8, bytes=sent)
    text = markdown(build_table("cost", tmp_path))
    assert cells(text, "FedGT")[1] == "– (154.1)"
    write_made(tmp_path, Job.of("cora", "disjoint", 5, "fedavg", 31), 0.8)
    text = markdown(build_table("cost", tmp_path))
    assert cells(text, "FedGT")[1] == "200.0 (154.1)"
    assert cells(text, "FedGT")[3] == "100.0 (126.3)"


def test_the_first_round_is_not_in_the_cost_and_rounds_unlike_others_are(tmp_path: Path) -> None:
    """Compare with FedSage+, whose rounds of generators cost more than the rest."""
    for name, seconds in (("fedavg", [9.0, 1.0, 1.0]), ("fedsage", [9.0, 3.0, 1.0])):
        job, record = Job.of("cora", "disjoint", 5, name, 31), made_run(0.8)
        record["rounds"]["cpu_seconds"] = seconds
        write_record(tmp_path, job, record)
    assert cells(markdown(build_table("cost", tmp_path)), "FedSage+")[2:4] == [
        "2.000",
        "200.0 (162.9)",
    ]


def test_several_versions_of_the_code_are_said(tmp_path: Path) -> None:
    for seed, commit in enumerate(("a", "b", "a"), 31):
        job = Job.of("cora", "louvain", 10, "fedgt", seed)
        write_made(tmp_path, job, 0.8, code={"version": "1", "commit": commit})
    text = markdown(build_table("louvain", tmp_path))
    assert "Made with 2 versions of the code; each record names its own." in text


def test_privacy_budget_stands_beside_accuracy(tmp_path: Path) -> None:
    spent = {"epsilon_coordinate": 4.0, "epsilon_coordinate_total": 400.0, "epsilon_total": 1e6}
    write_made(tmp_path, Job.of("cora", "disjoint", 10, "fedgt", 31), 0.8, privacy=spent)
    write_made(tmp_path, Job.of("cora", "disjoint", 10, "fedgt-noldp", 31), 0.9)
    text = markdown(build_table("ldp", tmp_path))
    assert cells(text, "global nodes, δ = 1, λ = 0.5") == ["80.00", "4.0", "400", "1"]
    assert cells(text, "nothing") == ["**90.00**", "–", "–", "1"]
    assert cells(text, "all, δ = 1, λ = 5")[0] == "–"


def test_statistics_beside_the_paper(tmp_path: Path) -> None:
    job = Job("cora", "disjoint", 5, seed=0, kind="statistics")
    write_record(tmp_path, job, {"missing_links": 400, "heterogeneity": 0.5})
    assert cells(markdown(build_table("statistics", tmp_path)), "cora/disjoint-5") == [
        "400 (403)",
        "0.500 (0.574)",
        "1",
    ]


def test_rounds_to_converge(tmp_path: Path) -> None:
    facts = made_run(0.8)
    facts["rounds"]["val"] = [0.1, 0.77, 0.8]
    write_record(tmp_path, Job.of("cora", "disjoint", 10, "fedgt", 31), facts)
    assert cells(markdown(build_table("convergence", tmp_path)), "FedGT")[0] == "2"


def test_the_paper_s_tables_have_the_cells_of_our_grids() -> None:
    assert len(PAPER["main-disjoint"]) == len(PAPER["main-overlap"]) == 9 * 18
    # Out of the paper's text, at the corners of its tables.
    for name, cell, variant, figures in (
        ("main-disjoint", "cora/disjoint-5", "local", (80.10, 0.76)),
        ("main-disjoint", "ogbn-arxiv/disjoint-20", "fedgt", (67.53, 0.15)),
        ("main-disjoint", "amazon-computers/disjoint-10", "fedpub", (89.73, 0.16)),
        ("main-overlap", "cora/overlap-10", "local", (78.14, 0.15)),
        ("main-overlap", "amazon-photo/overlap-50", "graphgps", (81.59, 1.85)),
        ("unbalanced", "pubmed/unbalanced-10", "fedgt", (83.29, 0.48)),
        ("louvain", "pubmed/louvain-10", "gcfl", (87.60, 0.34)),
    ):
        figure = PAPER[name][cell, variant]
        assert (figure.mean, figure.deviation) == figures
    assert PAPER["similarity"]["cora/overlap-30", "fedgt-no-ot"].deviation is None
    for name, printed in PAPER.items():
        ours = {(job.cell, job.row) for job in experiment(name).jobs}
        assert ours & printed.keys()


def test_the_paper_s_averages_are_those_it_prints() -> None:
    for name, variant, average in (
        ("main-disjoint", "fedgt", 81.96),
        ("main-disjoint", "fedpub", 80.96),
        ("main-overlap", "fedgt", 80.63),
        ("main-overlap", "local", 76.82),
    ):
        means = [figure.mean for (_, row), figure in PAPER[name].items() if row == variant]
        assert sum(means) / len(means) == pytest.approx(average, abs=0.02)


def test_settings_that_changed_since_are_named(tmp_path: Path) -> None:
    job = Job.of("cora", "louvain", 10, "fedgt", 31)
    config = without_places(resolve_settings(job.values()))
    write_made(tmp_path, job, 0.8, config=config | {"min-institutions": 10, "give-up-after": 60.0})
    assert "other settings" not in markdown(build_table("louvain", tmp_path))
    # A setting that is new since, and one that has another value.
    del config["checkpoints"]
    write_made(tmp_path, job, 0.8, config=config | {"weight-decay": 0.123})
    text = markdown(build_table("louvain", tmp_path))
    assert "1 runs were made with other settings than today's: weight-decay." in text


def test_the_whole_graph_stands_in_every_column_and_gives_the_way(tmp_path: Path) -> None:
    for seed, alone, own, whole in ((31, 0.70, 0.78, 0.80), (32, 0.72, 0.80, 0.82)):
        write_made(tmp_path, Job.of("cora", "disjoint", 10, "gcn", seed), alone)
        write_made(tmp_path, Job.of("cora", "disjoint", 10, "local", seed), alone - 0.1)
        write_made(tmp_path, Job.of("cora", "disjoint", 10, "fedgt", seed), own)
        write_made(tmp_path, Job.of("cora", "disjoint", 1, "gcn-whole", seed), whole)
    text = markdown(build_table("main-disjoint", tmp_path))
    row = cells(text, "GCN, whole graph")
    assert row[0] == row[1] == row[2]
    assert "81.00 ± 1.41" in row[0]
    # 0 at 71, the better of the two alone; 100 at 81; FedGT has 79.
    way = markdown(build_table("main-disjoint/way", tmp_path))
    assert cells(way, "FedGT")[:3] == ["–", "80", "–"]
    assert "GCN, alone" not in way


def test_only_columns_that_all_rows_have(tmp_path: Path) -> None:
    assert build_table("louvain/finished", tmp_path).rows == ()
    louvain(tmp_path, {"cora": {"fedgt": [0.8, 0.82], "gcn": [0.7]}, "citeseer": {"gcn": [0.6]}})
    text = markdown(build_table("louvain/finished", tmp_path))
    assert text.startswith("| method | Cora, 10 | average of 1 | seeds |")
    assert cells(text, "FedGT") == ["**81.00** ± 1.41", "**81.00**", "2"]
    assert cells(text, "GCN, alone") == ["70.00", "70.00", "1"]
    assert "FED-PUB" not in text


def test_differences_are_paired_and_corrected(tmp_path: Path) -> None:
    for seed, shift in zip(range(31, 36), (0.0, 0.1, -0.1, 0.05, 0.02), strict=True):
        write_made(tmp_path, Job.of("cora", "disjoint", 10, "fedgt", seed), 0.8 + shift)
        # Seeds differ by far more than the methods, but the difference is nearly the same.
        gap = 0.02 + 0.0001 * (seed % 2)
        write_made(tmp_path, Job.of("cora", "disjoint", 10, "fedavg", seed), 0.8 + shift - gap)
        noise = 0.05 * (-1) ** seed
        write_made(tmp_path, Job.of("cora", "disjoint", 10, "gcfl", seed), 0.8 + shift + noise)
    table = build_table("main-disjoint/paired", tmp_path)
    rows = {row.label: row.entries for row in table.rows}
    mean, low, high, above, below = (entry.mean for entry in rows["FedAvg"][-5:])
    assert mean is not None
    assert mean == pytest.approx(2.006, abs=1e-3)
    assert low is not None
    assert high is not None
    assert 2.0 <= low <= mean <= high <= 2.01
    assert (above, below) == (1.0, 0.0)
    _, low, high, above, below = (entry.mean for entry in rows["GCFL+"][-5:])
    assert low is not None
    assert high is not None
    assert low < 0 < high
    assert (above, below) == (0.0, 0.0)
    assert all(entry.mean is None for entry in rows["FedPer"][:-2])


def test_holm_by_hand() -> None:
    # Sorted .01, .02, .04: times 3, 2, 1, and never below the one before.
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
    assert paired_p([0.0, 0.0]) == 1.0
    assert paired_p([1.0, -1.0]) == pytest.approx(1.0)
