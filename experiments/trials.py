"""Validation-only trials: the same number for every method, on seeds outside every table."""

import statistics
from collections.abc import Iterable
from pathlib import Path

from experiments.choices import CHOICES, Choices, chosen_settings, read_choices
from experiments.job import Job
from experiments.protocol import (
    FAMILIES,
    TRIAL_CLIENTS,
    TRIAL_SEEDS,
    TRIAL_SETTING,
    TRIALS,
    TRIED_METHODS,
    family_of,
    rounds_of,
    trials,
)
from experiments.records import finished
from experiments.variants import variant
from shared.errors import FedGTError
from shared.files import write_json


def trial_jobs(family: str) -> list[Job]:
    """Return every trial of a family of datasets."""
    if family not in FAMILIES:
        raise FedGTError(f"family is '{family}', expected one of {', '.join(FAMILIES)}")
    return [
        job
        for method in TRIED_METHODS
        for number in range(TRIALS)
        for job in _of_trial(family, method, number)
    ]


def choose(families: Iterable[str], results: Path) -> tuple[Choices, int]:
    """Return the best trial of every method whose trials are all finished, and how many are not.

    The best is the one of highest validation accuracy, averaged over the seeds; of equal ones the
    first.
    """
    choices: Choices = {}
    missing = 0
    for family in families:
        for method in TRIED_METHODS:
            found = [_validation(family, method, number, results) for number in range(TRIALS)]
            known = [value for value in found if value is not None]
            missing += TRIALS - len(known)
            if len(known) < TRIALS:
                continue
            best = known.index(max(known))
            choices.setdefault(family, {})[method] = {
                "trial": best,
                "settings": dict(trials(method)[best]),
                "validation": [round(value, 5) for value in known],
            }
    return choices, missing


def write_choices(choices: Choices, path: Path = CHOICES) -> None:
    """Write choices beside those of other families."""
    kept = dict(read_choices(path))
    for family, methods in choices.items():
        kept[family] = {**kept.get(family, {}), **methods}
    write_json(path, kept)
    read_choices.cache_clear()


def check_chosen(jobs: Iterable[Job]) -> None:
    """Refuse to run rows of a table before their trials."""
    for job in jobs:
        method = variant(job.variant).chosen_for if job.kind == "run" else ""
        family = family_of(job.dataset)
        if family and method in TRIED_METHODS and chosen_settings(method, job.dataset) is None:
            raise FedGTError(
                f"{job.name}: no trial of {method} is chosen for the family {family} yet: "
                f"fedgt experiment trials {family}"
            )


def _of_trial(family: str, method: str, number: int) -> list[Job]:
    dataset = FAMILIES[family][0]
    return [
        Job(
            dataset,
            TRIAL_SETTING,
            TRIAL_CLIENTS,
            method,
            seed,
            rounds_of(dataset),
            kind="trial",
            trial=number,
        )
        for seed in TRIAL_SEEDS[family]
    ]


def _validation(family: str, method: str, number: int, results: Path) -> float | None:
    """Return the mean validation accuracy of a trial; None until all its seeds are finished."""
    records = [finished(results, job) for job in _of_trial(family, method, number)]
    values = [record["val"] for record in records if record and record.get("val") is not None]
    return statistics.fmean(values) if len(values) == len(records) else None
