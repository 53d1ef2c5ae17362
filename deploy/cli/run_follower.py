"""The rounds of a run at a coordinator, on the terminal that started it."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.cli.output import status_console
from deploy.cli.progress import round_progress
from deploy.engines.journal_tail import JournalTail
from fedgt_server.report.runs import JOURNAL
from fedgt_server.round_loop import Observer

_POLL = 0.3  # seconds between two looks at the journal


@contextmanager
def show_rounds(title: str, rounds: int, *, quiet: bool) -> Iterator[Callable[[Path], None]]:
    """Yield what is told the folder of the run: it then shows the rounds there, on a terminal.

    Elsewhere the log is all there is: it has a line for every round.
    """
    show = status_console.is_terminal and not quiet
    ended, followers = threading.Event(), list[threading.Thread]()
    with round_progress(status_console, title, rounds, show=show) as observe:

        def follow(folder: Path) -> None:
            if show:
                tail = JournalTail(folder / JOURNAL)
                followers.append(threading.Thread(target=_follow, args=(tail, observe, ended)))
                followers[0].start()

        try:
            yield follow
        finally:
            ended.set()
            for follower in followers:
                follower.join()


def _follow(tail: JournalTail, observe: Observer, ended: threading.Event) -> None:
    """Report rounds until the run has ended, and the last ones after that."""
    over = False
    while not over:
        over = ended.wait(_POLL)
        for event in tail.rounds():
            observe(event)
