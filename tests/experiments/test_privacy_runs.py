"""The runs behind the tables of docs/privacy.md."""

from pathlib import Path

import pytest

from experiments.privacy_runs import POLICY, PrivacyRun, all_runs, play, write_record
from experiments.privacy_tables import accuracy_table, read_runs
from shared.config import Scalar

_SMALL: dict[str, Scalar] = {"rounds": 2, "hidden": 16, "heads": 2, "samples": 4, "global-nodes": 4}


def test_no_two_runs_have_one_record(tmp_path: Path) -> None:
    paths = [run.record(tmp_path) for run in all_runs()]
    assert len(paths) == len(set(paths))


@pytest.mark.slow
def test_accuracies_are_exact_whatever_institutions_share(tmp_path: Path) -> None:
    run = PrivacyRun(f"small{POLICY}", "consortium", 0, _SMALL)
    result = play(run, clients=2)
    shared = [found.test_accuracy for found in result.per_client.values()]
    assert all(value is not None and _is_multiple(value, 0.05) for value in shared)
    assert result.test_accuracy is not None
    assert not _is_multiple(result.test_accuracy, 0.025)  # the mean of two
    write_record(tmp_path, run, result)
    assert "; the default policy | " in accuracy_table(read_runs(tmp_path))


def _is_multiple(value: float, step: float) -> bool:
    return abs(value / step - round(value / step)) < 1e-6
