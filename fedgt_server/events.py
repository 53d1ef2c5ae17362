"""The events of a run's journal: one type for each kind, checked when they are read."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from shared.config import Scalar


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
    missing: list[str]  # institutions of the federation that did not answer
    seconds: float

    # Only of methods that compare institutions.
    order: list[str] | None = None  # of the rows and columns of ``similarity``
    similarity: list[list[float | None]] | None = None
    strongest: dict[str, dict[str, float]] | None = None  # in its place where there are many
    similarity_mean: float | None = None
    similarity_spread: float | None = None
    self_weight: float | None = None


class FailedEvent(Event):
    """A run ended early; one that gave up waiting can be resumed when more institutions come."""

    event: Literal["failed"] = "failed"
    reason: str
    status: Literal["gave-up", "failed"] = "failed"


class Accuracies(Record):
    """What one institution measured in the best round; None where it has no such nodes."""

    val_accuracy: float | None
    test_accuracy: float | None


class PrivacySpent(Record):
    """The largest privacy budget that any institution has spent."""

    epsilon_coordinate: float
    epsilon_coordinate_total: float
    epsilon_total: float
    private: bool  # False where the noise can be drawn again


class Summary(Record):
    """What a run came to: accuracies at the round of best mean validation accuracy."""

    method: str
    test_accuracy: float | None
    val_accuracy: float | None
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


def mean_metric(institutions: Mapping[str, InstitutionRound], name: str) -> float | None:
    """Return the plain mean over the institutions that measured it; None where none did."""
    values = [at.metrics[name] for at in institutions.values() if name in at.metrics]
    return sum(values) / len(values) if values else None
