"""Progress of a long preparation, as lines in the institution's log."""

import logging
import threading
import time

logger = logging.getLogger(__name__)

_FIRST = 2.0  # seconds before the first line: what takes less says nothing
_BETWEEN = 10.0  # seconds between two lines


class Progress:
    """Logs the share that is done and the time left; may be advanced by several threads."""

    def __init__(self, step: str, total: int, *, at_most: bool = False) -> None:
        """Start the clock; ``at_most``: the total is an upper bound."""
        self._step, self._total, self._done = step, total, 0
        self._bound = "at most " if at_most else ""
        self._started = time.monotonic()
        self._next = self._started + _FIRST
        self._lock = threading.Lock()

    def advance(self, count: int) -> None:
        """Count ``count`` more of the total as done."""
        with self._lock:
            self._done += count
            now = time.monotonic()
            if now < self._next or self._done >= self._total:
                return
            self._next = now + _BETWEEN
            left = (now - self._started) * (self._total - self._done) / self._done
            percent = 100 * self._done / self._total
        logger.info("preparing: %s %.0f %%, %s%.0f s left", self._step, percent, self._bound, left)
