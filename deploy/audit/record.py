"""The result of an audit, in ``audit.json``, and its table."""

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.config import Scalar
from shared.errors import FedGTError
from shared.files import write_json

FILE = "audit.json"


class Attacked(BaseModel):
    """What the attacks found with some settings; means over institutions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    changed: dict[str, Scalar]  # settings that are not the run's
    seed: int
    rounds: int
    institutions: int
    test_accuracy: float | None
    epsilon_label: float | None
    label_error_update: float  # mean absolute error of a class's share
    label_error_nodes: float
    label_error_gradients: float | None = None  # None: there is no common model
    label_error_blind: float
    member_auc_update: float | None
    member_auc_model: float | None
    worst_member_auc_model: float | None  # of the institution that is worst off
    feature_auc: float | None  # None: every feature occurs everywhere
    single_node_cosine: float


class Audit(BaseModel):
    """An audit of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    setting: str
    found: tuple[Attacked, ...]


def write_audit(folder: Path, audit: Audit) -> None:
    """Write the record beside the run."""
    write_json(folder / FILE, audit.model_dump(mode="json"))


def read_audit(folder: Path) -> Audit:
    """Read the record of an audit."""
    path = folder / FILE
    try:
        return Audit.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise FedGTError(f"{path} is missing: 'fedgt audit {folder}' makes it") from None
    except ValidationError:
        raise FedGTError(f"{path} is not the record of an audit") from None


def columns(audit: Audit) -> list[str]:
    """Return the head of the table."""
    return ["attack", *(one.name for one in audit.found)]


def rows(audit: Audit) -> list[list[str]]:
    """Return the table, a row for each attack, a column for each of the settings."""
    return [[name, *(cell(one) for one in audit.found)] for name, cell in _CELLS.items()]


def _text(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


_CELLS: dict[str, Callable[[Attacked], str]] = {
    "test accuracy, %": lambda one: _text(one.test_accuracy and 100 * one.test_accuracy, 1),
    "class shares guessed from the first Δθ, error": lambda one: _text(one.label_error_update),
    "class shares guessed from the last μ, error": lambda one: _text(one.label_error_nodes),
    "class shares guessed from gradients of the common model, error": lambda one: _text(
        one.label_error_gradients
    ),
    "class shares guessed from none of them, error": lambda one: _text(one.label_error_blind),
    "training node told by Δθ, AUC": lambda one: _text(one.member_auc_update, 2),
    "training node told by the last model, AUC": lambda one: _text(one.member_auc_model, 2),
    "the same, worst institution": lambda one: _text(one.worst_member_auc_model, 2),
    "feature that occurs told by the first upload, AUC": lambda one: _text(one.feature_auc, 2),
    "features of a single node, cosine": lambda one: _text(one.single_node_cosine, 2),
}


def markdown(audit: Audit) -> str:
    """Return the table as it stands in a document."""
    head = columns(audit)
    lines = [head, ["---"] * len(head), *rows(audit)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
