"""Made events for tests of the journal and its readers."""

from typing import Any

from fedgt_server.events import InstitutionRound, RoundEvent


def institution_round(**changed: Any) -> InstitutionRound:
    """Return an institution's part in a round, with metrics and other fields as given."""
    return InstitutionRound.model_validate({"bytes_up": 10, "bytes_down": 20, **changed})


def round_event(
    number: int, institutions: dict[str, InstitutionRound] | None = None, **changed: Any
) -> RoundEvent:
    """Return a finished round, with method facts and other fields as given."""
    return RoundEvent.model_validate(
        {
            "round": number,
            "val_accuracy": 0.5,
            "test_accuracy": 0.5,
            "best_round": number,
            "institutions": institutions or {},
            "warnings": [],
            "missing": [],
            "seconds": 1.5,
            **changed,
        }
    )
