"""A model as a folder of its own: safetensors and JSON, and a card for people."""

import hashlib
import json
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedgt_client.data.schema import SCHEMA_FILE, Schema
from fedgt_client.predict.assessment import Assessment
from fedgt_client.predict.exported_check import content_problem, size_problem
from fedgt_client.predict.model import Model
from fedgt_client.run_record import RunRecord, first_problem
from shared.errors import FedGTError
from shared.files import atomic_folder, open_tensors, write_json, write_tensors

MODEL_FILE = "model.json"
WEIGHTS_FILE = "weights.safetensors"
CARD_FILE = "model-card.md"

# Paths of the machines that trained, which say nothing on another one.
_PATHS = ("data-dir", "state-dir", "results-dir")


class ModelDocument(BaseModel):
    """``model.json`` of an exported model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    record: RunRecord
    round: int = Field(ge=0, le=1_000_000_000)
    saved: str
    assessment: Assessment
    files: dict[str, str]  # SHA-256 of the other files, by name
    sha256: str = ""  # of all of the above: JSON with another digit is still JSON

    def digest(self) -> str:
        """Return the SHA-256 of everything but itself."""
        content = self.model_dump(mode="json", exclude={"sha256"})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def sealed(self) -> Self:
        """Return the document with its SHA-256."""
        return self.model_copy(update={"sha256": self.digest()})


def export_model(model: Model, assessment: Assessment, card: str, target: Path) -> None:
    """Write a folder that needs nothing else but data: weights, settings, schema, card."""
    config = model.record.config | {key: "" for key in _PATHS if key in model.record.config}
    if str(config.get("device", "")).startswith("cuda"):
        config["device"] = "auto"  # another machine may have no such device
    with atomic_folder(target) as staging:
        write_tensors(staging / WEIGHTS_FILE, model.arrays)
        if model.schema is not None:
            model.schema.save(staging / SCHEMA_FILE)
        (staging / CARD_FILE).write_text(card, encoding="utf-8")
        document = ModelDocument(
            record=model.record.model_copy(update={"node": {}, "config": config}),
            round=model.round_number,
            saved=model.saved,
            assessment=assessment,
            files={path.name: _sha256(path) for path in sorted(staging.iterdir())},
        )
        write_json(staging / MODEL_FILE, document.sealed().model_dump(mode="json"))


def open_exported(folder: Path) -> tuple[Model, Assessment]:
    """Read an exported model; a damaged or foreign folder is a FedGTError."""
    path = folder / MODEL_FILE
    try:
        document = ModelDocument.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise FedGTError(f"{path} is not a model of FedGT: {first_problem(error)}") from None
    if document.sha256 != document.digest():
        raise FedGTError(f"{path} was changed or is damaged: copy or export the model again")
    names = set(document.files)
    if not {WEIGHTS_FILE} <= names <= {WEIGHTS_FILE, SCHEMA_FILE, CARD_FILE}:
        raise FedGTError(f"{path} is not a model of FedGT: it lists other files than a model has")
    for name, expected in document.files.items():
        file = folder / name
        if not file.is_file() or _sha256(file) != expected:
            raise FedGTError(
                f"{file} is missing, changed or damaged: copy or export the model again"
            )
    arrays = open_tensors(folder / WEIGHTS_FILE)
    problem = content_problem(document.record, document.saved, document.assessment.calibration)
    if problem := problem or size_problem(document.record.settings, arrays):
        raise FedGTError(f"{path} is not a model of FedGT: {problem}")
    schema = Schema.load(folder / SCHEMA_FILE) if SCHEMA_FILE in document.files else None
    model = Model(
        document.record,
        document.round,
        document.saved,
        arrays,
        document.assessment.calibration,
        schema,
    )
    return model, document.assessment


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
