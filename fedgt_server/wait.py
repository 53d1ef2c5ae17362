"""Waiting for institutions, with a limit."""

import logging
import time
from collections.abc import Mapping

from shared.errors import FedGTError

logger = logging.getLogger(__name__)

_POLL = 2.0  # seconds between looks for institutions that are not there yet


class GaveUpError(FedGTError):
    """Too few institutions for too long; the last checkpoint is whole."""


class WaitLimit:
    """Waits in small steps and raises when ``seconds`` have passed since it was made."""

    def __init__(self, seconds: float) -> None:
        self._limit = seconds
        self._started = time.monotonic()

    def wait(self, state: str, failures: Mapping[int, str]) -> None:
        """Sleep for one step.

        Raises
        ------
        GaveUpError
            When the time is up; with ``state`` and the first of the ``failures`` of nodes.
        """
        if failures:
            state += f" ({next(iter(failures.values()))})"
        waited = time.monotonic() - self._started
        if waited >= self._limit:
            raise GaveUpError(f"{state}, after {waited:.0f} s: giving up; the run can be resumed")
        logger.info("waiting: %s", state)
        time.sleep(min(_POLL, self._limit - waited))
