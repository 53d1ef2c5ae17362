"""The result of a run, as the paper reports it, in ``result.json``."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from fedgt_server.best_round import at_best_round
from fedgt_server.events import (
    Accuracies,
    InstitutionRound,
    PrivacySpent,
    RoundEvent,
    Summary,
    majority_warning,
    mean_metric,
    sharing_notes,
)
from fedgt_server.journal import Journal
from shared.config import RunConfig, Scalar
from shared.errors import FedGTError
from shared.files import write_json
from shared.wire import OWN_WEIGHT, UPLOAD_WITHHELD

_FILE = "result.json"

# What institutions that add noise report of their budget, for the units that they protect.
_EPSILONS = (
    "epsilon_coordinate",
    "epsilon_coordinate_total",
    "epsilon_total",
    "epsilon_upload_total",
    "epsilon_label_total",
)
_PRIVATE = "epsilon_private"


class Result(Summary):
    """What a run came to, and with which settings."""

    config: dict[str, Scalar]


def summarise(journal: Journal, config: RunConfig) -> Result:
    """Return accuracies at the round of best mean validation accuracy, clients unweighted."""
    rounds = journal.rounds()
    parts = [part for event in rounds for part in event.institutions.values()]
    measured, missing = at_best_round(rounds)
    return Result(
        method=config.method,
        test_accuracy=mean_metric(measured, "test_accuracy"),
        val_accuracy=mean_metric(measured, "val_accuracy"),
        test_majority_share=mean_metric(measured, "test_majority_share"),
        test_balanced_accuracy=mean_metric(measured, "test_balanced_accuracy"),
        warnings=[
            *(found for found in (majority_warning(measured), _alone(measured)) if found),
            *sharing_notes(measured),
            *_withheld(rounds),
        ],
        missing=missing,
        best_round=rounds[-1].best_round,
        rounds=len(rounds),
        per_client={
            name: Accuracies(
                val_accuracy=part.metrics.get("val_accuracy"),
                test_accuracy=part.metrics.get("test_accuracy"),
                test_majority_share=part.metrics.get("test_majority_share"),
                test_balanced_accuracy=part.metrics.get("test_balanced_accuracy"),
                own_weight=part.metrics.get(OWN_WEIGHT),
            )
            for name, part in measured.items()
        },
        seconds=sum(event.seconds for event in rounds),
        bytes_up=sum(part.bytes_up for part in parts),
        bytes_down=sum(part.bytes_down for part in parts),
        uploads=_total_uploads(parts),
        similarity_spread=[event.similarity_spread for event in rounds],
        privacy=privacy_spent(parts),
        config=config.to_flower(),
    )


def write_result(folder: Path, result: Result) -> None:
    """Write the result of the run in ``folder``."""
    write_json(folder / _FILE, result.model_dump())


def read_result(folder: Path) -> Result | None:
    """Return the result of the run in ``folder``; None where it has none yet.

    Raises
    ------
    FedGTError
        When the file is not the result of a run.
    """
    path = folder / _FILE
    try:
        return Result.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        problem = error.errors()[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise FedGTError(f"{path} is not a run's result: {where} {problem['msg']}") from None


def _alone(institutions: Mapping[str, InstitutionRound]) -> str | None:
    """Say which institutions do better alone, by their own validation nodes."""
    names = sorted(
        name for name, part in institutions.items() if part.metrics.get(OWN_WEIGHT) == 1.0
    )
    if not names:
        return None
    predict = "which predicts by its own model"
    if len(names) > 1:
        predict = "which each predict by a model of their own"
    return f"alone is better for {', '.join(names)}, {predict}"


def _withheld(rounds: Sequence[RoundEvent]) -> list[str]:
    """Say who has withheld uploads for want of privacy budget, and since when."""
    first: dict[str, int] = {}
    for event in rounds:
        for name, part in event.institutions.items():
            if part.metrics.get(UPLOAD_WITHHELD):
                first.setdefault(name, event.round)
            else:
                first.pop(name, None)
    return [
        f"{name} has uploaded nothing since round {number}: its privacy budget is spent"
        for name, number in sorted(first.items())
    ]


def _total_uploads(parts: Collection[InstitutionRound]) -> dict[str, int]:
    """Return the bytes of everything that left an institution, by name."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part.uploads)
    return dict(sorted(total.items()))


def privacy_spent(parts: Collection[InstitutionRound]) -> PrivacySpent | None:
    """Return the largest budget that any institution has spent; None without LDP."""
    spent = [part.metrics for part in parts if _PRIVATE in part.metrics]
    if not spent:
        return None
    largest = {
        name: max(metrics[name] for metrics in spent if name in metrics)
        for name in _EPSILONS
        if any(name in metrics for metrics in spent)
    }
    return PrivacySpent(private=all(metrics[_PRIVATE] for metrics in spent), **largest)
