"""Small jobs and made records for tests of the experiments."""

from pathlib import Path
from typing import Any

from experiments.job import Job
from experiments.records import write_record


def small_run(seed: int = 0, *, rounds: int = 2, heads: int = 2) -> Job:
    """Return a run of a few seconds on generated data."""
    extra = (("global-nodes", 4), ("heads", heads), ("hidden", 16), ("samples", 4))
    return Job("consortium", "disjoint", 3, "fedgt", seed, rounds=rounds, extra=extra)


def statistics_of(seed: int = 0) -> Job:
    """Return a job that needs neither files nor torch."""
    return Job("consortium", "disjoint", 3, seed=seed, kind="statistics")


def made_run(test: float, rounds: int = 3, **facts: Any) -> dict[str, Any]:
    """Return a record of a run, as far as tables and figures read it."""
    return {
        "test": test,
        "val": test + 0.01,
        "best_round": rounds,
        "per_client": {"institution-00": [test, test]},
        "rounds": {
            "val": [test] * rounds,
            "test": [test - 0.1, *[test] * (rounds - 1)],
            "train_loss": [1.0] * rounds,
            "seconds": [2.0] * rounds,
            "cpu_seconds": [1.0] * rounds,
        },
        "similarity": None,
        "bytes": {"up": 3000, "down": 1000, "uploads": None},
        "privacy": None,
        "seconds": 1.0,
        **facts,
    }


def write_made(results: Path, job: Job, test: float, **facts: Any) -> None:
    """Write a record of ``job`` with the given accuracy."""
    write_record(results, job, made_run(test, **facts))
