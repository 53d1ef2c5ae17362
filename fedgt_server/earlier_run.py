"""A run of the same name that is in the results folder already: kept, unless it is replaced."""

import logging
from pathlib import Path

from fedgt_server.events import EndEvent, StartEvent
from fedgt_server.journal import Journal
from fedgt_server.lock import is_locked
from shared.errors import FedGTError

logger = logging.getLogger(__name__)

JOURNAL = "journal.jsonl"


def check_name_is_free(folder: Path) -> None:
    """Raise FedGTError if ``folder`` holds a run that is under way or has a finished round."""
    name = folder.name
    if is_locked(folder):
        raise FedGTError(
            f"the run '{name}' is under way: 'fedgt follow {name}' shows it, 'fedgt stop {name}' "
            "ends it"
        )
    journal = Journal(folder / JOURNAL)
    rounds = len(journal.rounds())
    if not rounds:
        return
    finished = isinstance(journal.last(), EndEvent)
    state = "is finished" if finished else f"has played {rounds} rounds"
    further = "" if finished else "'./resume.sh' continues it, "
    raise FedGTError(
        f"the run '{name}' {state}: {further}another run-name keeps it, and "
        "'./run.sh --replace' sets it aside"
    )


def set_aside(folder: Path) -> None:
    """Rename the folder of an earlier run, if there is one, to its name and token."""
    if not folder.exists():
        return
    if is_locked(folder):
        raise FedGTError(f"the run '{folder.name}' is still running: stop that first")
    begin = next((e for e in Journal(folder / JOURNAL).read() if isinstance(e, StartEvent)), None)
    name = f"{folder.name}.{(begin.run_token if begin else '') or 'earlier'}"
    target, count = folder.with_name(name), 1
    while target.exists():
        count += 1
        target = folder.with_name(f"{name}-{count}")
    folder.rename(target)
    logger.info("the earlier run '%s' is in %s", folder.name, target)
