"""Records: which file answers a job, and what is in it."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments.job import Job
from experiments.records import finished, record_path, run_facts, without_places, write_record
from shared.config import RunConfig
from tests.experiments.jobs import made_run, small_run, statistics_of


@pytest.mark.parametrize(
    "text", ["", "{", '{"test": 0.8}', "[]", '"request"', "null", '{"request": {"dataset"']
)
def test_a_torn_file_is_not_finished(text: str, tmp_path: Path) -> None:
    path = record_path(tmp_path, small_run())
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert finished(tmp_path, small_run()) is None


@pytest.mark.parametrize(
    "edited",
    [{"test": "0.8"}, {"test": 84.7}, {"test": float("nan")}, {"config": []}, {"rounds": None}],
)
def test_a_run_without_what_tables_read_is_not_finished(
    edited: dict[str, Any], tmp_path: Path
) -> None:
    write_record(tmp_path, small_run(), made_run(0.8) | edited)
    assert finished(tmp_path, small_run()) is None
    write_record(tmp_path, small_run(), {})
    assert finished(tmp_path, small_run()) is None
    path = record_path(tmp_path, small_run())
    path.write_text("[" * 100_000)
    assert finished(tmp_path, small_run()) is None


def test_no_file_is_not_finished(tmp_path: Path) -> None:
    assert finished(tmp_path, small_run()) is None


def test_a_folder_in_its_place_is_not_finished(tmp_path: Path) -> None:
    record_path(tmp_path, small_run()).mkdir(parents=True)
    assert finished(tmp_path, small_run()) is None


def test_the_record_of_another_request_is_not_finished(tmp_path: Path) -> None:
    write_record(tmp_path, small_run(rounds=2), made_run(0.5))
    assert finished(tmp_path, small_run(rounds=3)) is None
    assert finished(tmp_path, small_run(seed=1)) is None
    assert finished(tmp_path, small_run(rounds=2)) is not None


def test_a_variant_whose_settings_changed_is_not_finished(tmp_path: Path) -> None:
    job = Job.of("cora", "overlap", 10, "fedpub", 0)
    write_record(tmp_path, job, made_run(0.5))
    path = record_path(tmp_path, job)
    document = json.loads(path.read_text())
    document["request"]["settings"]["tau"] = 3.0
    path.write_text(json.dumps(document))
    assert finished(tmp_path, job) is None


def test_a_whole_file_is_finished(tmp_path: Path) -> None:
    write_record(tmp_path, statistics_of(), {"missing_links": 3})
    record = finished(tmp_path, statistics_of())
    assert record is not None
    assert record["missing_links"] == 3
    path = record_path(tmp_path, statistics_of())
    assert path == tmp_path / "consortium" / "disjoint-3" / "statistics-0.json"
    assert path.read_text().count("\n") == 1


def test_places_of_the_machine_are_left_out(tmp_path: Path) -> None:
    config = RunConfig.build(
        {"data-dir": "/a", "results-dir": "/b", "state-dir": "/c", "run-name": "d", "tau": 3.0}
    )
    kept = without_places(config)
    assert not {"/a", "/b", "/c", "d"} & set(kept.values())
    assert len(kept) == len(RunConfig.model_fields) - 4
    assert kept["tau"] == 3.0


def journal(rounds: int, clients: int) -> list[dict[str, Any]]:
    """Return rounds as a journal has them."""
    return [
        {
            "round": number,
            "val_accuracy": 0.1234567 * number,
            "test_accuracy": None,
            "seconds": 0.5,
            "warnings": ["alike (0.1): close", "other"] if number == 1 else ["alike (0.2): close"],
            "institutions": {
                f"i{index}": {
                    "train_loss": None if index == 0 else float(index),
                    "uploads": {"layer": 10, "global": 5},
                }
                for index in range(clients)
            },
            "order": [f"i{index}" for index in range(clients)],
            "similarity": [[0.12345 + number] * clients] * clients,
            "similarity_mean": 0.5,
            "similarity_spread": 0.1,
            "self_weight": 0.4,
        }
        for number in range(1, rounds + 1)
    ]


RESULT: dict[str, Any] = {
    "test_accuracy": None,
    "val_accuracy": 0.5,
    "best_round": 1,
    "per_client": {"i0": {"val_accuracy": 0.5, "test_accuracy": None}},
    "bytes_up": 30,
    "bytes_down": 40,
    "privacy": None,
}


def test_what_a_run_is_recorded_with() -> None:
    facts = run_facts(RunConfig.build(), RESULT, journal(2, 3), [1.0, 1.23456])
    assert facts["test"] is None
    assert facts["rounds"] == {
        "val": [0.12346, 0.24691],
        "test": [None, None],
        "train_loss": [1.5, 1.5],
        "seconds": [0.5, 0.5],
        "cpu_seconds": [1.0, 1.235],
    }
    assert facts["bytes"] == {"up": 30, "down": 40, "uploads": {"layer": 60, "global": 30}}
    assert facts["similarity"]["matrices"] == {"2": [[2.123] * 3] * 3}
    assert facts["warnings"] == {"alike": 2, "other": 1}


def test_of_few_clients_an_early_matrix_is_kept_too() -> None:
    facts = run_facts(RunConfig.build(), RESULT, journal(40, 2), [1.0] * 40)
    assert sorted(facts["similarity"]["matrices"]) == ["30", "40"]
    facts = run_facts(RunConfig.build(), RESULT, journal(40, 21), [1.0] * 40)
    assert sorted(facts["similarity"]["matrices"]) == ["40"]


def test_methods_without_similarities_and_journals_without_uploads() -> None:
    rounds = journal(2, 2)
    for event in rounds:
        for key in ("similarity", "order"):
            del event[key]
        for facts in event["institutions"].values():
            del facts["uploads"]
    facts = run_facts(RunConfig.build(), RESULT, rounds, [1.0, 1.0])
    assert facts["similarity"] is None
    assert facts["bytes"]["uploads"] is None
