"""The step that a command is at."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from deploy.cli.output import status_console

_BETWEEN = 30.0  # seconds before the first line, and between two, where there is no terminal
_PREPARATION = "fedgt_client.preprocess"  # logs the share that is done, and the time left


@contextmanager
def show_steps(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show the step under way and the time it has taken, to people only.

    Without a terminal it is a line now and then, for the logs of long jobs.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    shown = status_console.is_terminal and not quiet
    due = time.monotonic() + _BETWEEN
    with Progress(*columns, console=status_console, transient=True, disable=not shown) as progress:
        task = progress.add_task("starting", total=None)

        def step(text: str) -> None:
            nonlocal due
            progress.update(task, description=text)
            if not shown and not quiet and time.monotonic() >= due:
                due = time.monotonic() + _BETWEEN
                status_console.print(text, markup=False, highlight=False, soft_wrap=True)

        with _forwarded(step):
            yield step


@contextmanager
def _forwarded(step: Callable[[str], None]) -> Iterator[None]:
    """Take what the preparation of a graph logs as steps."""

    class Forward(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            step(record.getMessage())

    logger, handler = logging.getLogger(_PREPARATION), Forward(logging.INFO)
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
