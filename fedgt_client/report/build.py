"""From an institution's state and data to what its own page shows."""

import json
from contextlib import suppress
from typing import Any

import numpy as np
from pydantic import JsonValue

from fedgt_client.data.own_data import OwnData
from fedgt_client.predict.assessment import Assessment, assess, rarest_class
from fedgt_client.predict.model import Model
from fedgt_client.predict.model_card import METRIC_NAMES, balance_warnings, model_card
from fedgt_client.predict.source import Source
from fedgt_client.report.judged import confusion, reliability, threshold_curve
from fedgt_client.report.outbound import budget, ledger_entries, left_in_run
from fedgt_client.report.view import JudgedView, MetricView, OwnCurves, OwnView
from shared.files import Array
from shared.version import installed_version

_METRICS_FILE = "metrics.jsonl"


def build_own_view(
    source: Source,
    data: OwnData | None,
    *,
    method_title: str,
    settings: list[dict[str, JsonValue]],
    why_not: str = "",
    own_budget: float = 0.0,
) -> OwnView:
    """Return what the page of the institution shows whose model ``source`` is.

    Parameters
    ----------
    data : what the model was trained on; None: not here, and then ``why_not`` says why
    settings : of the run, with their meanings and defaults
    own_budget : ε that the institution's policy allows; 0: no limit, then the run's counts
    """
    model, record = source.model, source.model.record
    scores = model.scores(data) if data else None
    assessment = source.assessment
    if data is not None and scores is not None:
        assessment = assess(model, data, scores, source.rule, with_intervals=True)
    judged = _judged(model, data, scores, assessment) if data and assessment else None
    entries = ledger_entries(source.folder, record)
    config = record.config
    limits = (own_budget, float(config.get("privacy-budget", 0.0)))
    return OwnView(
        institution=record.institution,
        federation=record.federation,
        run=record.run,
        method=str(config["method"]),
        method_title=method_title,
        version=installed_version(),
        started=record.started,
        saved=model.saved,
        best_round=model.round_number,
        planned=int(config["rounds"]),
        nodes=record.nodes,
        links=record.links,
        features=len(record.features),
        classes=list(record.classes),
        train_counts=list(record.train_counts),
        curves=_curves(source),
        left=left_in_run(entries, record.run),
        budget=budget(entries, record.run, min(filter(None, limits), default=0.0)),
        metrics=_metrics(assessment),
        judged=judged,
        why_not=why_not or "there are no labelled nodes that it was not trained on",
        warnings=balance_warnings(model, assessment) if assessment else [],
        card=model_card(model, assessment, source.folder) if assessment else "",
        settings=settings,
    )


def _curves(source: Source) -> OwnCurves:
    """Read the log of the institution's own metrics; a round played again counts as it ended."""
    rounds: dict[int, dict[str, Any]] = {}
    path = source.folder / _METRICS_FILE
    for line in path.read_bytes().splitlines() if path.exists() else ():
        with suppress(ValueError, RecursionError):  # of a torn line
            found = json.loads(line)
            if isinstance(found, dict) and isinstance(found.get("round"), int):
                rounds[found["round"]] = found
    ordered = [rounds[number] for number in sorted(rounds)]
    return OwnCurves(
        rounds=sorted(rounds),
        val=[found.get("val_accuracy") for found in ordered],
        test=[found.get("test_accuracy") for found in ordered],
        loss=[found.get("train_loss") for found in ordered],
    )


def _judged(
    model: Model, data: OwnData, scores: Array | None, assessment: Assessment
) -> JudgedView | None:
    graph = data.graph
    is_test = bool(graph.test.any())
    nodes = np.flatnonzero(graph.test if is_test else graph.val)
    if scores is None or not len(nodes):
        return None
    calibration, labels, names = assessment.calibration, graph.labels[nodes], model.class_names
    probabilities = calibration.probabilities(scores[nodes])
    chosen = calibration.threshold
    positive = chosen.positive if chosen else rarest_class(model)
    index = names.index(positive)
    uncalibrated = calibration.model_copy(update={"temperature": 1.0})
    return JudgedView(
        split="test" if is_test else "validation",
        nodes=len(nodes),
        confusion=confusion(calibration.predict(scores[nodes], names), labels, len(names)),
        reliability=reliability(probabilities, labels),
        before=reliability(uncalibrated.probabilities(scores[nodes]), labels),
        threshold=threshold_curve(
            probabilities[:, index], labels == index, positive, chosen.value if chosen else None
        ),
    )


def _metrics(assessment: Assessment | None) -> list[MetricView]:
    if assessment is None:
        return []
    parts = {"val": assessment.val, "test": assessment.test}

    def value(split: str, name: str) -> float | None:
        part = parts[split]
        return getattr(part.metrics, name) if part else None

    return [
        MetricView(
            title=title,
            val=value("val", name),
            test=value("test", name),
            interval=assessment.test.intervals.get(name) if assessment.test else None,
        )
        for name, title in {**METRIC_NAMES, "majority_share": "share of the largest class"}.items()
    ]
