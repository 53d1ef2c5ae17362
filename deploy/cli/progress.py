"""Progress of a run: a live table on a terminal, a line now and then elsewhere."""

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live

from deploy.cli.round_table import RoundTable
from fedgt_client.preprocess.progress import logger as progress_logger
from fedgt_server.events import RoundEvent
from fedgt_server.round_loop import Observer

_LINES = 10  # in all, where there is no terminal
_ROUND = re.compile(r"^round \d+: ")
_REMEMBERED = 10_000  # log lines that are not printed again


def log_warnings(console: Console) -> None:
    """Print what the program warns of, above the live table where there is one."""
    logging.basicConfig(level=logging.WARNING, handlers=[_ConsoleHandler(console)])


@contextmanager
def round_progress(console: Console, title: str, rounds: int, *, show: bool) -> Iterator[Observer]:
    """Yield an observer that shows each round reported to it."""
    if not show:
        yield lambda _: None
    elif console.is_terminal:
        table = RoundTable(title, rounds)
        # Output that is piped elsewhere must not be drawn into the terminal.
        live = Live(table, console=console, redirect_stdout=sys.stdout.isatty())
        with _preparation_lines(console), live:
            yield table.observe
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
    """Prints log lines above the bar, where there is one; each text once."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._printed: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line; a warning of every round, such as 'kept its own model', only at first."""
        text = record.getMessage()
        key = _ROUND.sub("", text)
        if key in self._printed:
            return
        if len(self._printed) < _REMEMBERED:
            self._printed.add(key)
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


def _line(console: Console, title: str, rounds: int, event: RoundEvent) -> None:
    number = event.round
    if number == rounds or number % max(1, rounds // _LINES) == 0:
        answered = len(event.institutions)
        text = f"{title}: round {number}/{rounds}, {_validation(event)}"
        if event.missing:
            text += f", {answered} of {answered + len(event.missing)} answered"
        console.print(text, highlight=False, markup=False)


def _validation(event: RoundEvent) -> str:
    accuracy = event.val_accuracy
    return "no validation nodes" if accuracy is None else f"validation {accuracy:.1%}"
