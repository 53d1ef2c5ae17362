"""Waiting for institutions: how long for each, who is awaited, and when it is enough."""

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from statistics import median

from shared.errors import FedGTError

logger = logging.getLogger(__name__)

_POLL = 2.0  # seconds between looks for institutions that are not there yet
_SILENCE = 20.0  # seconds of waiting until the log says for whom

# An institution's rounds are much alike; one that takes several times as long has stopped. Short
# rounds vary more, and Flower notices by itself within a minute that a supernode is gone.
_MULTIPLE = 5.0  # of the median of its earlier rounds
_SHORTEST = 60.0  # seconds
_FEWEST, _MOST = 3, 20  # earlier rounds that the median is over


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


class Patience:
    """How long a round waits for each institution, by how long its earlier rounds took."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._took: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_MOST))
        self._missed: defaultdict[str, int] = defaultdict(int)

    def seconds(self, institution: str) -> float:
        """Return a multiple of its median, twice as much for each round in a row it has missed."""
        took = self._took[institution]
        if len(took) < _FEWEST:
            return self._limit
        # Doubled: one that has become slower for good must be able to answer again.
        more = 2.0 ** min(self._missed[institution], 30)
        return min(self._limit, max(_SHORTEST, _MULTIPLE * median(took)) * more)

    def answered(self, institution: str, seconds: float) -> None:
        """Note how long an institution took."""
        self._took[institution].append(seconds)
        self._missed[institution] = 0

    def missed(self, institution: str) -> None:
        """Note that an institution was awaited in vain."""
        self._missed[institution] += 1


class AwaitedLog:
    """Says in the log for whom a round is waiting: after 20 s, then at ever longer intervals."""

    def __init__(self, what: str, name: Callable[[int], str]) -> None:
        self._what, self._name = what, name
        self._started, self._since = time.monotonic(), datetime.now(UTC)
        self._next = _SILENCE

    def watch(self, nodes: Collection[int]) -> None:
        """Log the names of ``nodes`` if it is time to."""
        waited = time.monotonic() - self._started
        if waited < self._next:
            return
        self._next = 2.0 * waited
        logger.info(
            "%s: waiting for %s, since %s (%.0f s)",
            self._what,
            ", ".join(sorted(map(self._name, nodes))),
            self._since.strftime("%H:%M:%S UTC"),
            waited,
        )
