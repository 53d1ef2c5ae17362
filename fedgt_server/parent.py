"""Ending the ServerApp with the process that started it."""

import os
import threading
import time

_POLL = 0.5  # seconds
_GRACE = 5.0  # seconds


def end_with_parent() -> None:
    """End this process soon after its parent, whatever it is doing.

    The parent is Flower's executor, which ends with its SuperLink. Flower then asks the ServerApp
    to end as well; but it tries to reach the SuperLink for minutes, and all that time it would
    hold the run's folder against the ServerApp that resumes. What it has not saved by now, it
    could not finish.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL)
        time.sleep(_GRACE)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
