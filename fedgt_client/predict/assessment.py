"""What a trained model is worth at its institution: metrics, calibration, threshold.

Kept as ``evaluation.json`` beside the model; it leaves the institution only with an exported model.
"""

from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError

from fedgt_client.data.own_data import OwnData
from fedgt_client.metrics import Metrics, calibration_error, intervals, measure
from fedgt_client.predict.calibration import (
    Calibration,
    choose_threshold,
    fit_temperature,
    weight_offsets,
)
from fedgt_client.predict.model import Model
from fedgt_client.run_record import first_problem
from shared.errors import FedGTError
from shared.files import Array, write_json

FILE = "evaluation.json"

# Draws of the bootstrap; each takes tens of milliseconds, and more with many nodes.
_RESAMPLES, _RESAMPLES_LARGE, _LARGE = 200, 50, 20_000


class ThresholdRule(NamedTuple):
    """How to choose the threshold of a two-class problem."""

    rule: Literal["recall", "cost-ratio"]
    wanted: float
    positive: str | None = None  # None: the rarer class among the training nodes


class SplitAssessment(BaseModel):
    """Metrics of one split, with calibration and threshold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metrics: Metrics
    intervals: dict[str, tuple[float, float]]  # 95 %, by metric; empty: not asked for
    calibration_error_before: float  # of the model's scores as they are


class Assessment(BaseModel):
    """Calibration and metrics of one model; a split without nodes is None."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    model_digest: str  # of the weights that it is of
    calibration: Calibration
    val: SplitAssessment | None
    test: SplitAssessment | None

    def write(self, folder: Path) -> None:
        """Write ``evaluation.json``."""
        write_json(folder / FILE, self.model_dump(mode="json"))

    @classmethod
    def read(cls, folder: Path) -> "Assessment | None":
        """Read ``evaluation.json``; None where there is none."""
        path = folder / FILE
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise FedGTError(
                f"{path} cannot be read: {first_problem(error)}; delete it, and run "
                "'fedgt evaluate' again if it had a threshold"
            ) from None

    @property
    def rule(self) -> ThresholdRule | None:
        """How the threshold was chosen."""
        chosen = self.calibration.threshold
        return ThresholdRule(chosen.rule, chosen.wanted, chosen.positive) if chosen else None


def assess(
    model: Model,
    data: OwnData,
    scores: Array,
    rule: ThresholdRule | None = None,
    *,
    with_intervals: bool = False,
) -> Assessment:
    """Choose temperature and threshold on the validation nodes, and measure both splits.

    Parameters
    ----------
    data : what the model was trained on
    scores : its scores of all nodes there, shape (n, classes)
    rule : how to choose a threshold; None: predict the most probable class
    with_intervals : compute intervals of the metrics, which takes seconds
    """
    graph = data.graph
    val = np.flatnonzero(graph.val)
    calibration = _calibration(model, scores[val], graph.labels[val])
    if rule is not None:
        threshold = choose_threshold(
            calibration.probabilities(scores[val]),
            graph.labels[val],
            model.class_names,
            positive=rule.positive or rarest_class(model),
            rule=rule.rule,
            wanted=rule.wanted,
        )
        calibration = calibration.model_copy(update={"threshold": threshold})
    test = np.flatnonzero(graph.test)
    val_part, test_part = (
        _assess_split(model, calibration, scores[nodes], graph.labels[nodes], with_intervals)
        for nodes in (val, test)
    )
    return Assessment(
        model_digest=model.digest(),
        calibration=calibration,
        val=val_part,
        test=test_part,
    )


def rarest_class(model: Model) -> str:
    """Return the class with the fewest training nodes."""
    return model.class_names[int(np.argmin(model.record.train_counts))]


def _calibration(model: Model, scores: Array, labels: NDArray[np.int64]) -> Calibration:
    """Calibrate on validation nodes, shape (k, classes) and (k,)."""
    weighted = model.record.config.get("class-weights") == "balanced"
    offsets = weight_offsets(model.record.train_counts) if weighted else ()
    temperature = fit_temperature(scores - np.array(offsets or 0.0), labels)
    return Calibration(temperature=temperature, offsets=offsets)


def _assess_split(
    model: Model, calibration: Calibration, scores: Array, labels: Array, with_intervals: bool
) -> SplitAssessment | None:
    if not len(labels):
        return None
    names = model.class_names
    probabilities = calibration.probabilities(scores)
    predicted = calibration.predict(scores, names)
    resamples = _RESAMPLES if len(labels) <= _LARGE else _RESAMPLES_LARGE
    return SplitAssessment(
        metrics=measure(probabilities, labels, names, predicted),
        intervals=intervals(probabilities, labels, predicted, resamples=resamples)
        if with_intervals
        else {},
        calibration_error_before=calibration_error(Calibration().probabilities(scores), labels),
    )
