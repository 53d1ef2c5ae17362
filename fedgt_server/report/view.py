"""What the page of a run shows, as data: the types that the page's scripts read as JSON.

Institutions are named once, in ``RunView.institutions``; everything else refers to them by index.
"""

from typing import Literal

from pydantic import JsonValue

from fedgt_server.events import PrivacySpent, Record

Status = Literal["running", "finished", "failed", "gave-up", "stopped"]


class Note(Record):
    """A text, and the rounds it is of."""

    text: str
    first: int
    last: int
    count: int


class InstitutionView(Record):
    """One institution over the whole run; None is what it did not share or did not measure."""

    name: str
    in_best: bool  # it counts at the best round
    shares: bool  # it shared an accuracy in some round
    val: float | None  # accuracies in the best round
    test: float | None
    step: float | None  # to which it rounds its accuracies; None: it does not
    alone: float | None  # test accuracy without federation, where that was run
    metrics: dict[str, float]  # all it shared in the last round it took part in
    rounds: int  # in which its update was averaged
    seconds: float | None  # a round, in the mean
    slowest: float | None
    bytes_up: int
    bytes_down: int
    missed: list[int]
    left_out: list[Note]  # why updates were refused or did not come
    warnings: list[Note]
    epsilon_total: float | None
    epsilon_coordinate: float | None  # over all uploads


class Curves(Record):
    """Accuracies by round, in units of 0.0001; None: nobody shared it."""

    rounds: list[int]
    val: list[int | None]  # means
    test: list[int | None]
    seconds: list[float]
    answered: list[int]  # institutions


class InstitutionCurves(Record):
    """Accuracies of every institution, in units of 0.0001, at some of the rounds."""

    rounds: list[int]
    val: list[list[int | None]]
    test: list[list[int | None]]


class Matrices(Record):
    """Similarities S and weights α, one byte each: 0 is absent (see ``packing``)."""

    rounds: list[int]
    similarity: list[str]  # base64 of M·(M−1)/2 bytes for each round: the upper triangle by rows
    weights: list[str]  # base64 of M·M bytes for each round
    low: float  # smallest and largest similarity of two different institutions
    high: float


class Strongest(Record):
    """The others with the largest weights, where there are too many institutions for matrices."""

    round: int
    weights: list[list[tuple[int, float]]]


class PrivacyCurve(Record):
    """The largest budget that any institution has spent, by round."""

    rounds: list[int]
    epsilon_total: list[float | None]
    epsilon_coordinate: list[float | None]
    spent: PrivacySpent | None


class OtherRun(Record):
    """Another method on the same data."""

    name: str
    title: str
    method: str
    test: float | None
    best_round: int
    institutions: list[float | None]  # test accuracies


class SettingView(Record):
    """A setting of the run."""

    key: str
    value: JsonValue
    default: JsonValue  # of the method
    changed: bool
    description: str


class RunView(Record):
    """All that the page of a run shows."""

    kind: Literal["run"] = "run"
    run: str
    federation: str
    method: str
    method_title: str
    version: str
    status: Status
    reason: str  # why it failed
    started: str
    updated: str
    planned: int  # rounds
    played: int
    best_round: int
    select_by: str
    val: float | None
    test: float | None
    alone: float | None
    seconds: float
    seconds_left: float | None  # None: over, or not known yet
    bytes_up: int
    bytes_down: int
    institutions: list[InstitutionView]
    curves: Curves
    by_institution: InstitutionCurves
    matrices: Matrices | None
    strongest: Strongest | None
    privacy: PrivacyCurve | None
    warnings: list[Note]
    others: list[OtherRun]
    settings: list[SettingView]
