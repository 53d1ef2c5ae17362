"""The result of a run, as the paper reports it, in ``result.json``."""

from collections import Counter
from collections.abc import Collection
from pathlib import Path

from pydantic import ValidationError

from fedgt_server.events import Accuracies, InstitutionRound, PrivacySpent, Summary
from fedgt_server.journal import Journal
from shared.config import RunConfig, Scalar
from shared.errors import FedGTError
from shared.files import write_json

_FILE = "result.json"

# What an institution that adds noise reports of its budget.
_PRIVACY_METRICS = {
    "epsilon_coordinate",
    "epsilon_coordinate_total",
    "epsilon_total",
    "epsilon_private",
}


class Result(Summary):
    """What a run came to, and with which settings."""

    config: dict[str, Scalar]


def summarise(journal: Journal, config: RunConfig) -> Result:
    """Return test accuracy at the round of best mean validation accuracy, clients unweighted."""
    rounds = journal.rounds()
    best = next(event for event in rounds if event.round == rounds[-1].best_round)
    parts = [part for event in rounds for part in event.institutions.values()]
    return Result(
        method=config.method,
        test_accuracy=best.test_accuracy,
        val_accuracy=best.val_accuracy,
        best_round=best.round,
        rounds=len(rounds),
        per_client={
            name: Accuracies(
                val_accuracy=part.metrics.get("val_accuracy"),
                test_accuracy=part.metrics.get("test_accuracy"),
            )
            for name, part in sorted(best.institutions.items())
        },
        seconds=sum(event.seconds for event in rounds),
        bytes_up=sum(part.bytes_up for part in parts),
        bytes_down=sum(part.bytes_down for part in parts),
        uploads=_total_uploads(parts),
        similarity_spread=[event.similarity_spread for event in rounds],
        privacy=_privacy_spent(rounds[-1].institutions.values()),
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


def _total_uploads(parts: Collection[InstitutionRound]) -> dict[str, int]:
    """Return the bytes of everything that left an institution, by name."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part.uploads)
    return dict(sorted(total.items()))


def _privacy_spent(parts: Collection[InstitutionRound]) -> PrivacySpent | None:
    """Return the largest budget that any institution has spent; None without LDP."""
    spent = [part.metrics for part in parts if part.metrics.keys() >= _PRIVACY_METRICS]
    if not spent:
        return None
    return PrivacySpent(
        epsilon_coordinate=max(metrics["epsilon_coordinate"] for metrics in spent),
        epsilon_coordinate_total=max(metrics["epsilon_coordinate_total"] for metrics in spent),
        epsilon_total=max(metrics["epsilon_total"] for metrics in spent),
        private=all(metrics["epsilon_private"] for metrics in spent),
    )
