"""Ending a process with the one that started it."""

import os
import threading
import time

_POLL = 0.5  # seconds
_GRACE = 5.0  # seconds


def end_with_parent(parent: int | None = None) -> None:
    """End this process soon after its parent, whatever it is doing.

    ``parent`` is its number where the parent may have ended before this is called.

    The parent is Flower's executor, which ends with its SuperLink. Flower then asks the ServerApp
    to end as well; but it tries to reach the SuperLink for minutes, and all that time it would
    hold the run's folder against the ServerApp that resumes. What it has not saved by now, it
    could not finish.
    """
    expected = os.getppid() if parent is None else parent

    def watch() -> None:
        while os.getppid() == expected:
            time.sleep(_POLL)
        time.sleep(_GRACE)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
