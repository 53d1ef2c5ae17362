"""What a benchmark says while it works, on standard error."""

import time
from collections.abc import Callable

from deploy.cli.output import status_console

Progress = Callable[[str], None]


def to_terminal() -> Progress:
    """Return a function that prints a step with the seconds since the start."""
    started = time.monotonic()

    def say(step: str) -> None:
        seconds = time.monotonic() - started
        status_console.print(f"[{seconds:5.0f} s] {step}", highlight=False, markup=False)

    return say
