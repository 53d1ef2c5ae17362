"""The privacy budget over the rounds, for the page."""

from collections.abc import Sequence

from fedgt_server.events import RoundEvent
from fedgt_server.report.packing import thinned
from fedgt_server.report.view import PrivacyCurve
from fedgt_server.result import privacy_spent


def privacy_curve(rounds: Sequence[RoundEvent], limit: int) -> PrivacyCurve | None:
    """Return the largest budget spent by round; None where nobody reported one."""
    by_round = {event.round: _largest(event, "epsilon_total") for event in rounds}
    if not any(value is not None for value in by_round.values()):
        return None
    chosen = thinned(list(by_round), limit, rounds[-1].best_round)
    coordinate = {e.round: _largest(e, "epsilon_coordinate_total") for e in rounds}
    return PrivacyCurve(
        rounds=chosen,
        epsilon_total=[by_round[number] for number in chosen],
        epsilon_coordinate=[coordinate[number] for number in chosen],
        spent=privacy_spent([p for event in rounds for p in event.institutions.values()]),
    )


def _largest(event: RoundEvent, metric: str) -> float | None:
    parts = event.institutions.values()
    return max((p.metrics[metric] for p in parts if metric in p.metrics), default=None)
