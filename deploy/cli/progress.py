"""Progress of a run: a bar on a terminal, a line now and then elsewhere."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from fedgt_client.preprocess.progress import logger as progress_logger
from fedgt_server.events import RoundEvent
from fedgt_server.round_loop import Observer

_LINES = 10  # in all, where there is no terminal


@contextmanager
def round_progress(console: Console, title: str, rounds: int, *, show: bool) -> Iterator[Observer]:
    """Yield an observer that shows each round reported to it."""
    if not show:
        yield lambda _: None
    elif console.is_terminal:
        with _preparation_lines(console), _bar(console, title, rounds) as observe:
            yield observe
    else:
        console.print(f"{title}: preparing", highlight=False)
        with _preparation_lines(console):
            yield lambda event: _line(console, title, rounds, event)


@contextmanager
def _preparation_lines(console: Console) -> Iterator[None]:
    """Show what institutions in this process log of a long preparation."""
    handler, level = _ConsoleHandler(console), progress_logger.level
    progress_logger.addHandler(handler)
    progress_logger.setLevel(logging.INFO)
    progress_logger.propagate = False
    try:
        yield
    finally:
        progress_logger.removeHandler(handler)
        progress_logger.setLevel(level)
        progress_logger.propagate = True


class _ConsoleHandler(logging.Handler):
    """Prints log lines above the bar, where there is one."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        self._console.print(record.getMessage(), highlight=False)


@contextmanager
def _bar(console: Console, title: str, rounds: int) -> Iterator[Observer]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(f"{title}: preparing", total=rounds)
        yield lambda event: progress.update(
            task, completed=event.round, description=f"{title}: {_validation(event)}"
        )


def _line(console: Console, title: str, rounds: int, event: RoundEvent) -> None:
    number = event.round
    if number == rounds or number % max(1, rounds // _LINES) == 0:
        text = f"{title}: round {number}/{rounds}, {_validation(event)}"
        console.print(text, highlight=False)


def _validation(event: RoundEvent) -> str:
    accuracy = event.val_accuracy
    return "no validation nodes" if accuracy is None else f"validation {accuracy:.1%}"
