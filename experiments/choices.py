"""What the trials chose, as data: for every family of datasets and method the best trial."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from experiments.protocol import family_of
from shared.config import Scalar
from shared.errors import FedGTError

CHOICES = Path(__file__).parent / "choices.json"

# By family, then method: the trial's number, its settings, and the validation accuracy of all.
Choices = dict[str, dict[str, dict[str, Any]]]


@cache
def read_choices(path: Path = CHOICES) -> Choices:
    """Read the choices made so far; none without a file."""
    if not path.exists():
        return {}
    try:
        document = json.loads(path.read_text())
        return {
            str(family): {str(method): dict(chosen) for method, chosen in methods.items()}
            for family, methods in document.items()
        }
    except (ValueError, TypeError, AttributeError):
        message = f"{path} does not hold choices: 'fedgt experiment trials' writes it"
        raise FedGTError(message) from None


def chosen_settings(method: str, dataset: str) -> dict[str, Scalar] | None:
    """Return the settings chosen for a method on a dataset; None where no choice is made."""
    found = read_choices().get(family_of(dataset) or "", {}).get(method)
    return None if found is None else dict(found["settings"])
