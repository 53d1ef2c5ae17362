"""A job's record: one JSON file, there whole or not at all, without any machine's paths."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.settings import resolve_settings
from experiments.job import Job
from fedgt_server.events import RoundEvent, mean_metric
from fedgt_server.result import Result
from shared.config import RunConfig, Scalar
from shared.files import write_json

RESULTS = Path(__file__).parent / "results"

# What an experiment's jobs came to, as far as they are finished.
Records = Mapping[Job, dict[str, Any]]

# Where a run's files lay says nothing about the run.
_PLACES = ("data-dir", "results-dir", "state-dir", "run-name")
# What a run on one machine sets besides.
_OF_ONE_MACHINE = ("min-institutions", "give-up-after")
# The paper shows similarities at round 30; the matrices of many clients are kept once.
_EARLY_ROUND, _FEW_CLIENTS = 30, 20


def record_path(results: Path, job: Job) -> Path:
    """Return the file of the record of ``job``."""
    return results / f"{job.name}.json"


def read_record(path: Path) -> dict[str, Any] | None:
    """Read the record in a file; None where there is none, or it is incomplete."""
    try:
        document = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "request" in document else None


def finished(results: Path, job: Job) -> dict[str, Any] | None:
    """Return the record that answers ``job``, None while there is none."""
    record = read_record(record_path(results, job))
    # Compared as JSON has it: a file knows no tuples.
    asked = json.loads(json.dumps(job.request()))
    if record is None or record["request"] != asked:
        return None
    return record if job.kind not in ("run", "trial") or _is_of_a_run(record) else None


def _is_of_a_run(record: Mapping[str, Any]) -> bool:
    """Tell whether a record has what tables read, even if somebody edited it."""
    # Trials have no test accuracy.
    accuracy = record.get("val" if record["request"]["kind"] == "trial" else "test", "")
    known = isinstance(accuracy, int | float) and 0.0 <= accuracy <= 1.0
    parts = (record.get("rounds"), record.get("bytes"), record.get("config", {}))
    return (accuracy is None or known) and all(isinstance(part, dict) for part in parts)


def write_record(results: Path, job: Job, facts: Mapping[str, Any]) -> None:
    """Write what ``job`` came to, beside what was asked."""
    document = {"request": job.request(), **facts}
    write_json(record_path(results, job), document, indent=None)


def run_facts(
    config: RunConfig,
    result: Result,
    rounds: Sequence[RoundEvent],
    cpu_seconds: Sequence[float],
) -> dict[str, Any]:
    """Return what a record says of a run, from its result and its journal's rounds."""
    curves = {
        "val": [rounded(event.val_accuracy) for event in rounds],
        "test": [rounded(event.test_accuracy) for event in rounds],
        "train_loss": [rounded(_mean_loss(event)) for event in rounds],
        "seconds": [rounded(event.seconds, 3) for event in rounds],
        "cpu_seconds": [rounded(seconds, 3) for seconds in cpu_seconds],
    }
    return {
        "test": rounded(result.test_accuracy),
        "val": rounded(result.val_accuracy),
        "best_round": result.best_round,
        "per_client": {
            name: [rounded(measured.val_accuracy), rounded(measured.test_accuracy)]
            for name, measured in result.per_client.items()
        },
        "rounds": curves,
        "similarity": _similarity(rounds),
        "bytes": {
            "up": result.bytes_up,
            "down": result.bytes_down,
            "uploads": _uploads(rounds),
        },
        "privacy": result.privacy and result.privacy.model_dump(),
        "warnings": _warnings(rounds),
        "config": without_places(config),
    }


def without_test(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's facts without any of its test nodes."""
    kept = {key: value for key, value in facts.items() if key != "test"}
    curves = {key: curve for key, curve in facts["rounds"].items() if key != "test"}
    validation = {name: [accuracy] for name, (accuracy, _) in facts["per_client"].items()}
    return kept | {"rounds": curves, "per_client": validation}


def without_places(config: RunConfig) -> dict[str, Scalar]:
    """Return the whole configuration but for the folders of this machine."""
    return {key: value for key, value in config.to_flower().items() if key not in _PLACES}


def changed_settings(job: Job, record: Mapping[str, Any]) -> set[str]:
    """Return settings of a record that differ from today's; those new since do not count."""
    if "config" not in record:
        return set()
    today = without_places(resolve_settings(job.values(), preset=job.preset))
    return {
        key
        for key, value in record["config"].items()
        if key not in _OF_ONE_MACHINE and key in today and today[key] != value
    }


def rounded(value: float | None, digits: int = 5) -> float | None:
    """Round a value for files that are read by people and kept in version control."""
    return None if value is None else round(value, digits)


def _mean_loss(event: RoundEvent) -> float | None:
    return mean_metric(event.institutions, "train_loss")


def _similarity(rounds: Sequence[RoundEvent]) -> dict[str, Any] | None:
    """Return mean and spread in every round, the matrix after the last; None for other methods."""
    last = rounds[-1]
    if last.similarity is None or last.order is None:
        return None
    kept = {last.round: last}
    if len(last.order) <= _FEW_CLIENTS and len(rounds) > _EARLY_ROUND:
        kept[_EARLY_ROUND] = rounds[_EARLY_ROUND - 1]
    return {
        "order": last.order,
        "matrices": {
            str(number): [[rounded(value, 3) for value in row] for row in event.similarity or []]
            for number, event in sorted(kept.items())
        },
        "mean": [rounded(event.similarity_mean, 4) for event in rounds],
        "spread": [rounded(event.similarity_spread, 4) for event in rounds],
        "self_weight": [rounded(event.self_weight, 4) for event in rounds],
    }


def _uploads(rounds: Sequence[RoundEvent]) -> dict[str, int] | None:
    """Return bytes of the whole run by the name of what was uploaded; None if not recorded."""
    total: dict[str, int] = {}
    for event in rounds:
        for part in event.institutions.values():
            for name, size in part.uploads.items():
                total[name] = total.get(name, 0) + size
    return total or None


def _warnings(rounds: Sequence[RoundEvent]) -> dict[str, int]:
    """Count the rounds with each kind of warning of the coordinator."""
    found: dict[str, int] = {}
    for event in rounds:
        for warning in event.warnings:
            kind = warning.split("(")[0].split(":")[0].strip()
            found[kind] = found.get(kind, 0) + 1
    return found
