"""A run on a terminal while it goes on: rounds, time left, who answers, the trend, who is slow."""

import statistics
import time
from collections import deque
from collections.abc import Callable

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from deploy.cli.output import fold
from fedgt_server.events import InstitutionRound, RoundEvent

_LAST = 10  # rounds that time left and trend are taken from
_CURVE = 30  # rounds of the small curve
_BLOCKS = "▁▂▃▄▅▆▇█"
_SLOW = 2.0  # times the median of the others
_WAITING = 5.0  # seconds after which a round under way is shown with its time
_NAME = 30  # characters of a name


class RoundTable:
    """What is shown of one run; printed again and again by ``rich.live.Live``."""

    def __init__(
        self, title: str, rounds: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._title, self._rounds, self._clock = title, rounds, clock
        self._last: RoundEvent | None = None
        self._seconds: deque[float] = deque(maxlen=_LAST)
        self._validation: deque[float] = deque(maxlen=_CURVE)
        self._since = clock()

    def observe(self, event: RoundEvent) -> None:
        """Take in a finished round."""
        self._last = event
        self._seconds.append(event.seconds)
        self._since = self._clock()
        if event.val_accuracy is not None:
            self._validation.append(event.val_accuracy)

    def __rich__(self) -> RenderableType:
        """Return the table as it is now."""
        number = self._last.round if self._last else 0
        head = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=self._rounds, completed=number, width=30)
        head.add_row(
            Text(self._title, style="bold"),
            bar,
            Text(f"round {number} of {self._rounds}"),
            Text(self._time()),
        )
        rows = Table.grid(padding=(0, 2))
        for name, text in self._facts():
            rows.add_row(Text(f"  {name}", style="dim"), Text(text))
        whole = Table.grid()
        whole.add_row(head)
        whole.add_row(rows)
        return whole

    def _time(self) -> str:
        passed = self._clock() - self._since
        waiting = f"; the next for {passed:.0f} s" if passed > _WAITING else ""
        if not self._last:
            return f"preparing{waiting.replace('; the next', '')}"
        left = statistics.median(self._seconds) * (self._rounds - self._last.round)
        return f"{_duration(left)} left{waiting}" if left else "done"

    def _facts(self) -> list[tuple[str, str]]:
        if not self._last:
            return []
        found = [("validation", self._trend()), ("answered", _answered(self._last))]
        if slow := slow_institution(self._last.institutions):
            found.append(("slow", slow))
        return found

    def _trend(self) -> str:
        if not self._validation:
            return "nobody shared it"
        values = list(self._validation)
        before = values[-min(len(values), _LAST + 1)]
        change = 100 * (values[-1] - before)
        arrow = "→" if abs(change) < 0.05 else "↑" if change > 0 else "↓"
        steps = min(len(values) - 1, _LAST)
        over = f" {arrow} {change:+.1f} in {steps} rounds" if steps else ""
        best = self._last.best_round if self._last else 0
        return f"{values[-1]:.1%}{over}   {_small_curve(values)}   best in round {best}"


def slow_institution(institutions: dict[str, InstitutionRound]) -> str:
    """Name the institution that took at least twice as long as the median; empty: none did."""
    seconds = {
        name: part.metrics["seconds"]
        for name, part in institutions.items()
        if "seconds" in part.metrics
    }
    if len(seconds) < 2:
        return ""
    slowest = max(seconds, key=lambda name: seconds[name])
    others = statistics.median(value for name, value in seconds.items() if name != slowest)
    if seconds[slowest] < max(_SLOW * others, 1.0):
        return ""
    return f"{slowest[:_NAME]}, {seconds[slowest]:.1f} s (the others {others:.1f} s)"


def _answered(event: RoundEvent) -> str:
    text = f"{len(event.institutions)} of {len(event.institutions) + len(event.missing)}"
    missing = fold([name[:_NAME] for name in event.missing], shown=3)
    return f"{text}; missing: {missing}" if event.missing else text


def _small_curve(values: list[float]) -> str:
    low, high = min(values), max(values)
    width = max(high - low, 1e-9)
    return "".join(_BLOCKS[min(int(8 * (value - low) / width), 7)] for value in values)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
