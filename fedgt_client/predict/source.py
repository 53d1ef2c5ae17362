"""Find trained models: in a kit, in a run's folder or state, in an exported folder."""

import os
import tomllib
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fedgt_client import run_record
from fedgt_client.data.own_data import OwnData
from fedgt_client.data.subgraph import open_institution
from fedgt_client.node import NodeConfig
from fedgt_client.predict.assessment import Assessment, ThresholdRule, assess
from fedgt_client.predict.exported_model import MODEL_FILE, open_exported
from fedgt_client.predict.model import Model
from fedgt_client.run_record import RunRecord
from fedgt_client.state import StateStore
from shared.errors import FedGTError
from shared.files import Array, open_tensors

_NODE_FILE = "node.toml"
_RUN_STATES = "institutions"  # in the folder of 'fedgt run --out'


@dataclass(frozen=True)
class Source:
    """A model, where it was found, and what it was trained on."""

    model: Model
    folder: Path
    data_folder: Path | None  # None: not on this machine, or a share of a named dataset
    assessment: Assessment | None = None  # of this very model; None: not made yet
    rule: ThresholdRule | None = None  # by which a threshold was chosen, perhaps of an older model
    exported: bool = False

    def open_data(self, folder: Path | None = None) -> OwnData:
        """Open the data in ``folder``, by default what the model was trained on."""
        chosen = folder or self.data_folder
        if chosen is not None:
            return OwnData.open(chosen)
        record = self.model.record
        if "partition-id" not in record.node:
            raise FedGTError(f"{self.folder} holds a model without data: name its folder by --data")
        return OwnData.of(open_institution(NodeConfig.parse(record.node), record.settings))

    def check_same_data(self, data: OwnData) -> None:
        """Raise FedGTError unless ``data`` is what the model was trained on."""
        self.model.check_data(data)
        if data.graph.digest() != self.model.record.graph_digest:
            raise FedGTError(
                f"the data is not what the model of {self.model.record.institution} was trained "
                "on: is it another institution's? If it was imported again, predict and explain "
                "take it by --changed-data"
            )


def open_source(folder: Path, *, run: str = "", institution: str = "") -> Source:
    """Find the best model in ``folder``: a kit, a run's folder or state, or an exported model.

    Parameters
    ----------
    run : of several runs in a kit; by default the one with the newest model
    institution : of several in the folder of a run
    """
    if not folder.is_dir():
        raise FedGTError(f"{folder} is not a folder: name a kit, a run or an exported model")
    if (folder / MODEL_FILE).exists():
        return _open_exported(folder, run, institution)
    if (folder / run_record.FILE).exists():
        return _open_state(folder, None)
    if (folder / _NODE_FILE).exists():
        node = _kit_node(folder)
        states = folder / (node.state_dir or "state")
        found = _newest_state(folder, states, run, institution or node.name)
        return _open_state(found, folder / node.data_dir if node.data_dir else None)
    if (folder / _RUN_STATES).is_dir():
        found = _newest_state(folder, folder / _RUN_STATES, run, institution)
        return _open_state(found, None)
    methods = sorted(path.parent.name for path in folder.glob(f"*/{_RUN_STATES}"))
    if methods:
        there = ", ".join(str(folder / method) for method in methods)
        raise FedGTError(f"{folder} compares methods: choose the run of one; there are: {there}")
    raise FedGTError(
        f"{folder} holds no model ({_NODE_FILE}, {run_record.FILE} and {MODEL_FILE} are missing): "
        "name a kit, a run or an exported model"
    )


def load_model(folder: Path | str, *, run: str = "", institution: str = "") -> Model:
    """Load the best model in ``folder``: a kit, a run's folder or state, or an exported model.

    Probabilities are calibrated where the model was exported, or evaluated by 'fedgt evaluate'.

    Parameters
    ----------
    run : of several runs in a kit; by default the one with the newest model
    institution : of several in the folder of a run
    """
    return open_source(Path(folder), run=run, institution=institution).model


def calibrated(source: Source, data: OwnData, scores: Array) -> Source:
    """Return a source whose model is calibrated, on ``data`` that it was trained on.

    The calibration is kept beside the model, if that folder can be written to.
    """
    if source.assessment is not None:
        return source
    assessment = assess(source.model, data, scores, source.rule)
    if os.access(source.folder, os.W_OK):
        assessment.write(source.folder)
    model = source.model.with_calibration(assessment.calibration)
    return replace(source, model=model, assessment=assessment, rule=assessment.rule)


def _open_exported(folder: Path, run: str, institution: str) -> Source:
    model, assessment = open_exported(folder)
    for what, wanted, found in (
        ("run", run, model.record.run),
        ("institution", institution, model.record.institution),
    ):
        if wanted and wanted != found:
            raise FedGTError(f"{folder} is a model of {what} {found}, not of {wanted}")
    return Source(model, folder, None, assessment, assessment.rule, exported=True)


def _open_state(folder: Path, data_folder: Path | None) -> Source:
    """Open the best model in a run's state; ``data_folder`` is the kit's, which may have moved."""
    record = RunRecord.read(folder)
    place = record.node.get("data-dir")
    data_folder = data_folder or (Path(str(place)) if place else None)
    model, kept = _read_best(folder, record), Assessment.read(folder)
    if kept is None:
        return Source(model, folder, data_folder)
    if kept.model_digest != model.digest():  # of an earlier round
        return Source(model, folder, data_folder, rule=kept.rule)
    model = model.with_calibration(kept.calibration)
    return Source(model, folder, data_folder, kept, kept.rule)


def _read_best(folder: Path, record: RunRecord) -> Model:
    """Read the best model, which a run that goes on may just be replacing."""
    store = _state_store(folder)
    for _ in range(3):
        best = store.best()
        if best is None:
            raise FedGTError(
                f"run {record.run} has no model yet at {record.institution}: "
                "wait until its second round"
            )
        with suppress(FileNotFoundError):
            arrays = open_tensors(best.path)
            saved = datetime.fromtimestamp(best.saved_at / 1e9, UTC).isoformat(timespec="seconds")
            return Model(record, best.round_number, saved, arrays)
    raise FedGTError(f"{folder} changes while it is read: try again")


def _newest_state(folder: Path, states: Path, run: str, institution: str) -> Path:
    """Return the folder with the newest model among a kit's runs, or of the one that is named."""
    found = sorted(path.parent for path in states.glob(f"*/*/*/{run_record.FILE}"))
    if not found:
        raise FedGTError(f"{folder} has taken part in no run yet: there is none in {states}")
    runs = sorted({place.parent.name for place in found})
    if run:
        found = [place for place in found if place.parent.name == run]
        if not found:
            raise FedGTError(f"{folder} has no run '{run}'; there are: {', '.join(runs)}")
    names = sorted({place.name for place in found})
    if institution:
        found = [place for place in found if place.name == institution]
        if not found:
            raise FedGTError(
                f"{folder} has no model of '{institution}'; there are: {', '.join(names)}"
            )
    elif len(names) > 1:
        raise FedGTError(
            f"{folder} has models of {len(names)} institutions: choose one by --institution; "
            f"there are: {', '.join(names)}"
        )
    return max(found, key=_time_of_model)


def _time_of_model(folder: Path) -> int:
    best = _state_store(folder).best()
    return best.saved_at if best else 0


def _state_store(folder: Path) -> StateStore:
    path = folder.absolute()
    return StateStore(path.parents[2], *path.parts[-3:])


def _kit_node(folder: Path) -> NodeConfig:
    path = folder / _NODE_FILE
    try:
        return NodeConfig.parse(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FedGTError(f"{path} is not valid TOML: {error}") from None
    except FedGTError as error:
        raise FedGTError(f"{path}: {error}") from None
