"""The events of a run's journal: one type for each kind, checked when they are read."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import median_low
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from shared.config import Scalar
from shared.wire import METRICS_STEP


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class Record(BaseModel):
    """A part of what is written to disk."""

    model_config = ConfigDict(frozen=True)


class Event(Record):
    """What all events have in common."""

    event: str
    time: str = Field(default_factory=_now)

    def to_json(self) -> dict[str, JsonValue]:
        """Return the event as a JSON object, without fields that were not given."""
        return {"event": self.event, "time": self.time} | self.model_dump(exclude_unset=True)


class StartEvent(Event):
    """A run begins with its first round."""

    event: Literal["start"] = "start"
    config: dict[str, Scalar]
    run_token: str = ""  # tells the run from others of its name


class ResumeEvent(Event):
    """A run continues from a checkpoint."""

    event: Literal["resume"] = "resume"
    after_round: int


class WarningEvent(Event):
    """Something about the whole run that its reader should know."""

    event: Literal["warning"] = "warning"
    warning: str


class InstitutionRound(Record):
    """One institution's part in a round; further keys are its metrics."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, float | None] = Field(init=False)

    warnings: list[str] = []
    bytes_up: int
    uploads: dict[str, int] = {}  # bytes of arrays by name, the model's together as 'weights'
    bytes_down: int

    @property
    def metrics(self) -> dict[str, float]:
        """Return the metrics that the institution reported, without those that do not apply."""
        return {name: value for name, value in self.__pydantic_extra__.items() if value is not None}


class RoundEvent(Event):
    """A finished round; further keys are what the method reports of it."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)

    event: Literal["round"] = "round"
    round: int
    val_accuracy: float | None  # mean over institutions that measured it; None: nobody did
    test_accuracy: float | None
    best_round: int
    institutions: dict[str, InstitutionRound]
    warnings: list[str]
    missing: list[str]  # institutions of the federation that are not in the average
    left_out: dict[str, str] = {}  # why an update was not averaged or did not come, where known
    seconds: float

    # Only of methods that compare institutions.
    order: list[str] | None = None  # of the rows and columns of ``similarity`` and ``weights``
    similarity: list[list[float | None]] | None = None
    weights: list[list[float | None]] | None = None  # α, a row for each that is sent an average
    strongest: dict[str, dict[str, float]] | None = None  # in its place where there are many
    similarity_mean: float | None = None
    similarity_spread: float | None = None
    self_weight: float | None = None


class FailedEvent(Event):
    """A run ended early; one that gave up waiting can be resumed when more institutions come."""

    event: Literal["failed"] = "failed"
    reason: str
    status: Literal["gave-up", "failed", "stopped"] = "failed"


class Accuracies(Record):
    """What one institution measured in the best round; None where it has no such nodes."""

    val_accuracy: float | None
    test_accuracy: float | None
    test_majority_share: float | None = None  # of always naming the largest class
    test_balanced_accuracy: float | None = None  # mean recall over classes
    own_weight: float | None = None  # of its own model in predictions; 1: it does better alone


class PrivacySpent(Record):
    """The largest privacy budget that any institution has spent."""

    epsilon_coordinate: float | None = None  # None: other units are protected
    epsilon_coordinate_total: float | None = None
    epsilon_total: float | None = None
    epsilon_upload_total: float | None = None  # of whole uploads
    epsilon_label_total: float | None = None  # of one training node's label
    private: bool  # False where the noise can be drawn again


class Summary(Record):
    """What a run came to: accuracies at the round of best mean validation accuracy."""

    method: str
    test_accuracy: float | None
    val_accuracy: float | None
    test_majority_share: float | None = None
    test_balanced_accuracy: float | None = None
    warnings: list[str] = []  # of what the accuracies are worth
    missing: dict[str, str] = {}  # who is not in the means: why
    best_round: int
    rounds: int
    per_client: dict[str, Accuracies]
    seconds: float
    bytes_up: int
    bytes_down: int
    uploads: dict[str, int] = {}
    similarity_spread: list[float | None]  # by round
    privacy: PrivacySpent | None  # None: without local differential privacy


class EndEvent(Summary, Event):
    """A run has played all its rounds."""

    event: Literal["end"] = "end"


JournalEvent = Annotated[
    StartEvent | ResumeEvent | WarningEvent | RoundEvent | FailedEvent | EndEvent,
    Field(discriminator="event"),
]
_PARSER: TypeAdapter[JournalEvent] = TypeAdapter(JournalEvent)


def parse_event(line: bytes) -> JournalEvent | None:
    """Return the event on a line of a journal; None where it is torn or not an event."""
    try:
        return _PARSER.validate_json(line)
    except ValidationError:
        return None


# Mean recall over classes: that of a constant is at most a half.
_TELLS_CLASSES = 0.55


def majority_warning(institutions: Mapping[str, InstitutionRound]) -> str | None:
    """Warn where no institution's test accuracy is above the share of its largest class."""
    pairs = [
        (at.metrics["test_accuracy"], at.metrics["test_majority_share"])
        for at in institutions.values()
        if at.metrics.keys() >= {"test_accuracy", "test_majority_share"}
    ]
    recalls = [
        at.metrics.get("test_balanced_accuracy", 0.0)
        for at in institutions.values()
        if at.metrics.get("test_majority_share", 1.0) < 1  # with one class a constant has 1
    ]
    if max(recalls, default=0.0) > _TELLS_CLASSES:
        return None  # as with class weights, which cost accuracy and find the rare class
    rounded = any(METRICS_STEP in at.metrics for at in institutions.values())
    if not pairs or any(accuracy > share - rounded * 1e-9 for accuracy, share in pairs):
        return None  # rounded to the same, one may still be above the other
    return (
        "no institution's test accuracy is above the share of its largest class: the model tells "
        "classes no better than a constant; see class-weights, select-by and the labels"
    )


def sharing_notes(institutions: Mapping[str, InstitutionRound]) -> list[str]:
    """Say how exact accuracies are, where institutions do not share them as they are."""
    parts = [at.metrics for at in institutions.values()]
    steps = [metrics[METRICS_STEP] for metrics in parts if METRICS_STEP in metrics]
    silent = sum("val_accuracy" not in metrics for metrics in parts)
    notes = []
    if steps:
        notes.append(
            f"{len(steps)} of {len(parts)} institutions round their accuracies, to steps of up to "
            f"{max(steps):g}: their own logs have them exactly"
        )
    if silent:
        notes.append(
            f"{silent} of {len(parts)} institutions share no validation accuracy: the means are "
            "without them"
        )
    return notes


def mean_metric(institutions: Mapping[str, InstitutionRound], name: str) -> float | None:
    """Return the plain mean over the institutions that measured it; None where none did."""
    return mean_value([at.metrics[name] for at in institutions.values() if name in at.metrics])


def mean_value(values: Sequence[float]) -> float | None:
    """Return the plain mean; None where there are no values."""
    return sum(values) / len(values) if values else None


def bounded_value(values: Sequence[float]) -> float | None:
    """Return the mean of values of which a third, the largest in size, count as the next one does.

    Of gains since another round: whatever one of three or two of six report, it counts for no more
    than what somebody else has measured, and nobody is left out, as with a trimmed mean, which
    compares rounds by a third of all. Where that next one is 0, as rounded accuracies often are,
    the limit is in the middle of those that are not 0, without the largest of them. Of two values,
    where nobody can tell which is wrong, it is the plain mean.
    """
    if len(values) < 3:
        return mean_value(values)
    sizes = sorted(abs(value) for value in values)
    changed = [size for size in sizes if size]
    limit = sizes[len(sizes) - len(sizes) // 3 - 1] or median_low(changed[:-1] or [0.0])
    return mean_value([min(max(value, -limit), limit) for value in values])


def trimmed_value(values: Sequence[float]) -> float | None:
    """Return the mean without the largest and smallest third; None where there are no values.

    Of three institutions that is the median, of fewer the plain mean. Whatever one of three or two
    of six report, it lies between values that others have measured.
    """
    cut = len(values) // 3
    return mean_value(sorted(values)[cut : len(values) - cut])
