"""All that runs have measured as one tidy table: a row for each number."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fedgt_server.events import RoundEvent
from fedgt_server.journal import Journal
from fedgt_server.report.runs import JOURNAL, read_start
from shared.errors import FedGTError


class Row(NamedTuple):
    """One number."""

    run: str  # the folder
    method: str
    institution: str | None  # None: of the federation
    round: int
    metric: str
    value: float


def result_rows(folders: Sequence[Path]) -> Iterator[Row]:
    """Yield every number of the runs in ``folders``; a comparison's folder stands for its runs."""
    for run in [run for folder in folders for run in _runs(folder)]:
        start = read_start(run)
        method = str(start.config.get("method", "")) if start else ""
        for event in Journal(run / JOURNAL).rounds():
            for institution, metric, value in _numbers(event):
                yield Row(str(run), method, institution, event.round, metric, value)


def _runs(folder: Path) -> list[Path]:
    if (folder / JOURNAL).exists():
        return [folder]
    found = sorted(path.parent for path in folder.glob(f"*/{JOURNAL}"))
    if not found:
        raise FedGTError(f"{folder} holds no run: {JOURNAL} is missing")
    return found


def _numbers(event: RoundEvent) -> Iterator[tuple[str | None, str, float]]:
    means = {
        "val_accuracy": event.val_accuracy,
        "test_accuracy": event.test_accuracy,
        "similarity_mean": event.similarity_mean,
        "similarity_spread": event.similarity_spread,
        "self_weight": event.self_weight,
        "answered": len(event.institutions),
        "missing": len(event.missing),
        "seconds": event.seconds,
    }
    yield from ((None, metric, value) for metric, value in means.items() if value is not None)
    for name, part in event.institutions.items():
        counted = {"bytes_up": part.bytes_up, "bytes_down": part.bytes_down}
        yield from ((name, metric, value) for metric, value in (part.metrics | counted).items())
