"""What the page shows of each institution, added up over the rounds."""

from collections.abc import Iterable, Mapping, Sequence

from fedgt_server.events import InstitutionRound, RoundEvent
from fedgt_server.report.view import InstitutionView, Note
from fedgt_server.result import Result
from shared.wire import METRICS_STEP

_TEXT = 300  # characters of a note
_NOTES = 20  # different ones of an institution
_METRICS = 40  # of an institution
_ACCURACIES = {"val_accuracy", "test_accuracy"}


def names_in(rounds: Sequence[RoundEvent]) -> list[str]:
    """Return every institution that took part or was missed, sorted."""
    answered = {name for event in rounds for name in event.institutions}
    return sorted(answered | {name for event in rounds for name in event.missing})


def institution_views(
    rounds: Sequence[RoundEvent],
    names: Sequence[str],
    best: Mapping[str, InstitutionRound],
    alone: Result | None,
) -> list[InstitutionView]:
    """Return every institution in the order of ``names``.

    Parameters
    ----------
    best : what institutions measured at the best round
    alone : a run without exchange on the same data
    """
    return [_view(rounds, name, best, alone) for name in names]


def notes(found: Iterable[tuple[int, str]]) -> list[Note]:
    """Return each text once, with the rounds it is of; most frequent first."""
    rounds: dict[str, list[int]] = {}
    for number, text in found:
        rounds.setdefault(text[:_TEXT], []).append(number)
    collected = [
        Note(text=text, first=min(numbers), last=max(numbers), count=len(numbers))
        for text, numbers in rounds.items()
    ]
    return sorted(collected, key=lambda note: (-note.count, note.first))[:_NOTES]


def _view(
    rounds: Sequence[RoundEvent],
    name: str,
    best: Mapping[str, InstitutionRound],
    alone: Result | None,
) -> InstitutionView:
    parts = [(e.round, e.institutions[name]) for e in rounds if name in e.institutions]
    metrics = parts[-1][1].metrics if parts else {}
    measured = best[name].metrics if name in best else {}
    by_itself = alone.per_client.get(name) if alone else None
    seconds = [part.metrics["seconds"] for _, part in parts if "seconds" in part.metrics]
    return InstitutionView(
        name=name,
        in_best=name in best,
        shares=any(_ACCURACIES & part.metrics.keys() for _, part in parts),
        val=measured.get("val_accuracy"),
        test=measured.get("test_accuracy"),
        step=measured.get(METRICS_STEP),
        alone=by_itself.test_accuracy if by_itself else None,
        metrics=dict(list(metrics.items())[:_METRICS]),
        rounds=len(parts),
        seconds=sum(seconds) / len(seconds) if seconds else None,
        slowest=max(seconds, default=None),
        bytes_up=sum(part.bytes_up for _, part in parts),
        bytes_down=sum(part.bytes_down for _, part in parts),
        missed=[event.round for event in rounds if name in event.missing],
        left_out=notes((e.round, e.left_out[name]) for e in rounds if name in e.left_out),
        warnings=notes(_warnings(parts)),
        epsilon_total=metrics.get("epsilon_total"),
        epsilon_coordinate=metrics.get("epsilon_coordinate_total"),
    )


def _warnings(parts: Iterable[tuple[int, InstitutionRound]]) -> Iterable[tuple[int, str]]:
    return ((number, warning) for number, part in parts for warning in part.warnings)
