"""What has left an institution and what that cost, from the ledger of its data."""

from collections import defaultdict
from pathlib import Path

from fedgt_client.privacy import release
from fedgt_client.privacy.ledger import Entry, read_entries, run_ledger
from fedgt_client.privacy.spent import Spent
from fedgt_client.report.view import BudgetView, LeftView
from fedgt_client.run_record import RunRecord

_POINTS = 40  # of the curve: each composes all uploads until then
_UNITS: dict[release.Unit, str] = {
    "coordinate": "one coordinate",
    "upload": "whole uploads",
    "label": "the label of one training node",
}
_NAMED = 3  # arrays of a part


def ledger_entries(state_folder: Path, record: RunRecord) -> list[Entry]:
    """Return all uploads of the data that a run was trained on, oldest first."""
    path = run_ledger(state_folder, record.data_digest)
    return list(read_entries(path)) if path else []


def left_in_run(entries: list[Entry], run: str) -> list[LeftView]:
    """Return what left in one run: a row for each part of uploads that are alike."""
    rounds: dict[release.Part, list[int]] = defaultdict(list)
    for entry in entries:
        if entry.run == run:
            for part in entry.release.parts:
                rounds[part].append(entry.round)
    return [
        LeftView(
            arrays=_names(part.arrays),
            values=part.coordinates,
            uploads=len(numbers),
            first=min(numbers),
            last=max(numbers),
            protection=_protection(part),
        )
        for part, numbers in rounds.items()
    ]


def budget(entries: list[Entry], run: str, limit: float) -> BudgetView | None:
    """Return what all uploads together have cost; None where there were none."""
    if not entries:
        return None
    spent = Spent()
    dates, counts, epsilon = [], [], []
    step = max(1, len(entries) // _POINTS)
    for number, entry in enumerate(entries, start=1):
        spent.add(entry.release)
        if number % step == 0 or number == len(entries):
            dates.append(entry.time)
            counts.append(number)
            epsilon.append(max((value for _, value in _spent_by_unit(spent)), default=0.0))
    return BudgetView(
        limit=limit,
        uploads=spent.uploads,
        uploads_here=sum(entry.run == run for entry in entries),
        unprotected=spent.unprotected,
        seeded=spent.seeded,
        units=_spent_by_unit(spent),
        dates=dates,
        counts=counts,
        epsilon=epsilon,
    )


def _spent_by_unit(spent: Spent) -> list[tuple[str, float]]:
    return [(what, spent.epsilon(unit)) for unit, what in _UNITS.items() if spent.counts[unit]]


def _names(arrays: tuple[str, ...]) -> str:
    more = f" and {len(arrays) - _NAMED} more" if len(arrays) > _NAMED else ""
    return ", ".join(arrays[:_NAMED]) + more


def _protection(part: release.Part) -> str:
    if part.unit == "none":
        return "none"
    noise = f"{part.mechanism.capitalize()} noise, {part.noise:.3g} × the sensitivity"
    return f"{noise}; protects {_UNITS[part.unit]}"
