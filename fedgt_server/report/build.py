"""From a run's journal to what its page shows."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from fedgt_server.best_round import at_best_round
from fedgt_server.events import (
    EndEvent,
    FailedEvent,
    JournalEvent,
    RoundEvent,
    StartEvent,
    WarningEvent,
    mean_metric,
)
from fedgt_server.lock import is_locked
from fedgt_server.methods import METHODS
from fedgt_server.report.institutions import institution_views, names_in, notes
from fedgt_server.report.matrices import matrices, ordered_names, strongest
from fedgt_server.report.packing import thinned
from fedgt_server.report.privacy import privacy_curve
from fedgt_server.report.runs import FoundRun
from fedgt_server.report.settings import setting_views
from fedgt_server.report.view import Curves, InstitutionCurves, OtherRun, RunView, Status
from fedgt_server.result import Result
from shared.config import Scalar
from shared.errors import FedGTError
from shared.version import installed_version

_TEN_THOUSANDTHS = 10_000
_LAST = 10  # rounds that the time left is estimated from


@dataclass(frozen=True)
class Limits:
    """How much a page holds; what is beyond is thinned out, evenly over the rounds."""

    rounds: int = 1_000  # of the means
    values: int = 50_000  # accuracies of institutions: about 5 bytes each
    matrix_bytes: int = 330_000  # before base64


def build_view(found: FoundRun, limits: Limits | None = None) -> RunView:
    """Return what the page of a run shows, also while it goes on."""
    limits = limits or Limits()
    events = list(found.journal.read())
    start = next((event for event in events if isinstance(event, StartEvent)), None)
    if start is None:
        raise FedGTError(f"{found.folder} holds no run yet: its journal does not say which")
    rounds = found.journal.rounds()
    names = ordered_names(rounds, names_in(rounds))
    measured, missing = at_best_round(rounds) if rounds else ({}, {})
    alone = next((r for r in found.others.values() if r.method == "local"), None)
    status, reason = _status(events, is_running=is_locked(found.folder))
    institutions = institution_views(rounds, names, measured, alone)
    method, planned = str(start.config.get("method", "")), _count(start.config, "rounds")
    return RunView(
        run=str(start.config.get("run-name") or found.folder.name),
        federation=str(start.config.get("federation", "")),
        method=method,
        method_title=_title(method),
        version=installed_version(),
        status=status,
        reason=reason[:300],
        started=start.time,
        updated=events[-1].time,
        planned=planned,
        played=len(rounds),
        best_round=rounds[-1].best_round if rounds else 0,
        select_by=str(start.config.get("select-by", "accuracy")),
        val=mean_metric(measured, "val_accuracy"),
        test=mean_metric(measured, "test_accuracy"),
        alone=alone.test_accuracy if alone else None,
        seconds=sum(event.seconds for event in rounds),
        seconds_left=_seconds_left(rounds, planned) if status == "running" else None,
        bytes_up=sum(one.bytes_up for one in institutions),
        bytes_down=sum(one.bytes_down for one in institutions),
        institutions=institutions,
        curves=_curves(rounds, limits),
        by_institution=_institution_curves(rounds, names, limits),
        matrices=matrices(rounds, names, limits.matrix_bytes),
        strongest=strongest(rounds, names),
        privacy=privacy_curve(rounds, limits.rounds),
        warnings=notes(
            [(0, f"the means are without {name}: it {why}") for name, why in missing.items()]
            + [(0, event.warning) for event in events if isinstance(event, WarningEvent)]
            + [(0, line) for last in events if isinstance(last, EndEvent) for line in last.warnings]
            + [(event.round, warning) for event in rounds for warning in event.warnings]
        ),
        others=[_other(name, result, names) for name, result in found.others.items()],
        settings=setting_views(start.config),
    )


def _status(events: Sequence[JournalEvent], *, is_running: bool) -> tuple[Status, str]:
    last = events[-1]
    if isinstance(last, EndEvent):
        return "finished", ""
    if isinstance(last, FailedEvent):
        return last.status, last.reason
    return ("running", "") if is_running else ("stopped", "")


def _curves(rounds: Sequence[RoundEvent], limits: Limits) -> Curves:
    chosen = set(_kept(rounds, limits.rounds))
    shown = [event for event in rounds if event.round in chosen]
    return Curves(
        rounds=[event.round for event in shown],
        val=[_scaled(event.val_accuracy) for event in shown],
        test=[_scaled(event.test_accuracy) for event in shown],
        seconds=[round(event.seconds, 3) for event in shown],
        answered=[len(event.institutions) for event in shown],
    )


def _institution_curves(
    rounds: Sequence[RoundEvent], names: Sequence[str], limits: Limits
) -> InstitutionCurves:
    chosen = set(_kept(rounds, max(limits.values // max(2 * len(names), 1), 20)))
    shown = [event for event in rounds if event.round in chosen]

    def values(name: str, metric: str) -> list[int | None]:
        parts = (event.institutions.get(name) for event in shown)
        return [_scaled(part.metrics.get(metric)) if part else None for part in parts]

    return InstitutionCurves(
        rounds=[event.round for event in shown],
        val=[values(name, "val_accuracy") for name in names],
        test=[values(name, "test_accuracy") for name in names],
    )


def _kept(rounds: Sequence[RoundEvent], limit: int) -> list[int]:
    return thinned([e.round for e in rounds], limit, rounds[-1].best_round if rounds else 0)


def _scaled(accuracy: float | None) -> int | None:
    return None if accuracy is None else round(accuracy * _TEN_THOUSANDTHS)


def _seconds_left(rounds: Sequence[RoundEvent], planned: int) -> float | None:
    last = [event.seconds for event in rounds[-_LAST:]]
    return statistics.median(last) * (planned - rounds[-1].round) if last else None


def _other(name: str, result: Result, names: Sequence[str]) -> OtherRun:
    measured = [result.per_client.get(institution) for institution in names]
    return OtherRun(
        name=name,
        title=_title(result.method),
        method=result.method,
        test=result.test_accuracy,
        best_round=result.best_round,
        institutions=[at.test_accuracy if at else None for at in measured],
    )


def _title(method: str) -> str:
    return METHODS[method].title if method in METHODS else method


def _count(config: dict[str, Scalar], key: str) -> int:
    value = config.get(key, 0)
    return int(value) if isinstance(value, int | float) else 0
