"""The step that a command is at."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from deploy.cli.output import status_console


@contextmanager
def show_steps(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show the step under way and the time it has taken, to people only."""
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    shown = status_console.is_terminal and not quiet
    with Progress(*columns, console=status_console, transient=True, disable=not shown) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda step: progress.update(task, description=step)
