"""The step that a command is at."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from deploy.cli.output import status_console

_PREPARATION = "fedgt_client.preprocess"  # logs the share that is done, and the time left


@contextmanager
def show_steps(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show the step under way and the time it has taken, to people only."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    shown = status_console.is_terminal and not quiet
    with Progress(*columns, console=status_console, transient=True, disable=not shown) as progress:
        task = progress.add_task("starting", total=None)

        def step(text: str) -> None:
            progress.update(task, description=text)

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
