"""A model as a folder of its own: safetensors and JSON, and a card for people."""

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fedgt_client.data.schema import SCHEMA_FILE, Schema
from fedgt_client.predict.assessment import Assessment
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
    round: int
    saved: str
    weights_sha256: str
    assessment: Assessment


def export_model(model: Model, assessment: Assessment, card: str, target: Path) -> None:
    """Write a folder that needs nothing else but data: weights, settings, schema, card."""
    config = model.record.config | {key: "" for key in _PATHS if key in model.record.config}
    with atomic_folder(target) as staging:
        write_tensors(staging / WEIGHTS_FILE, model.arrays)
        document = ModelDocument(
            record=model.record.model_copy(update={"node": {}, "config": config}),
            round=model.round_number,
            saved=model.saved,
            weights_sha256=_sha256(staging / WEIGHTS_FILE),
            assessment=assessment,
        )
        write_json(staging / MODEL_FILE, document.model_dump(mode="json"))
        if model.schema is not None:
            model.schema.save(staging / SCHEMA_FILE)
        (staging / CARD_FILE).write_text(card)


def open_exported(folder: Path) -> tuple[Model, Assessment]:
    """Read an exported model; a damaged or foreign folder is a FedGTError."""
    path = folder / MODEL_FILE
    try:
        document = ModelDocument.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise FedGTError(f"{path} is not a model of FedGT: {first_problem(error)}") from None
    weights = folder / WEIGHTS_FILE
    if not weights.exists() or _sha256(weights) != document.weights_sha256:
        raise FedGTError(f"{weights} is missing or damaged: copy or export the model again")
    schema = Schema.load(folder / SCHEMA_FILE) if (folder / SCHEMA_FILE).exists() else None
    if (schema and schema.digest()) != document.record.schema_digest:
        raise FedGTError(f"{folder / SCHEMA_FILE} is not the schema of this model: export it again")
    model = Model(
        document.record,
        document.round,
        document.saved,
        open_tensors(weights),
        document.assessment.calibration,
        schema,
    )
    return model, document.assessment


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
