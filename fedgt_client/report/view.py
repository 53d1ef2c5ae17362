"""What an institution's own page shows, as data: the types that the page's scripts read as JSON.

Nothing here is of another institution: all of it comes from this one's state and data.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue


class Part(BaseModel):
    """A part of the page."""

    model_config = ConfigDict(frozen=True)


class OwnCurves(Part):
    """What the institution measured in every round; None where it had no such nodes."""

    rounds: list[int]
    val: list[float | None]  # accuracies
    test: list[float | None]
    loss: list[float | None]


class LeftView(Part):
    """Arrays that left the institution in this run, protected in one way."""

    arrays: str
    values: int  # in one upload
    uploads: int
    first: int  # round
    last: int
    protection: str


class BudgetView(Part):
    """What uploads of this data have cost, in all runs."""

    limit: float  # ε; 0: none
    uploads: int
    uploads_here: int  # in this run
    unprotected: int  # uploads with arrays that had no noise
    seeded: int  # uploads whose noise can be drawn again
    units: list[tuple[str, float]]  # what is protected, and its ε
    dates: list[str]  # of some of the uploads
    counts: list[int]  # of uploads until then
    epsilon: list[float]  # of the unit that has spent most, until then


class MetricView(Part):
    """A metric of the best model, with a 95 % interval where there is one."""

    title: str
    val: float | None
    test: float | None
    interval: tuple[float, float] | None  # of test


class Reliability(Part):
    """Nodes by how sure the model was: of those with 80 %, 80 % should be right."""

    confidence: list[float]  # means of the bins that have nodes
    right: list[float]
    nodes: list[int]


class ThresholdCurve(Part):
    """What a threshold on one class's probability would find."""

    positive: str
    share: float  # of nodes that are of this class
    thresholds: list[float]
    precision: list[float | None]  # None: nothing is found
    recall: list[float | None]
    alarms: list[float]  # share of nodes that would be found
    chosen: float | None


class JudgedView(Part):
    """The best model on nodes it was not trained on."""

    split: Literal["test", "validation"]
    nodes: int
    confusion: list[list[int]]  # rows: true classes, columns: predicted ones
    reliability: Reliability
    before: Reliability  # without calibration
    threshold: ThresholdCurve | None


class OwnView(Part):
    """All that an institution's own page shows."""

    kind: Literal["institution"] = "institution"
    institution: str
    federation: str
    run: str
    method: str
    method_title: str
    version: str
    started: str
    saved: str  # when the best model was
    best_round: int
    planned: int  # rounds
    nodes: int
    links: int
    features: int
    classes: list[str]
    train_counts: list[int]
    curves: OwnCurves
    left: list[LeftView]
    budget: BudgetView | None  # None: nothing has left
    metrics: list[MetricView]
    judged: JudgedView | None  # None: the data is not here, or has no labelled nodes to judge by
    why_not: str  # why there is none
    warnings: list[str]
    card: str  # Markdown
    settings: list[dict[str, JsonValue]]  # as on the page of a run
