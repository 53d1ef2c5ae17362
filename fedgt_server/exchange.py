"""Messages out, answers in, until all are there or the time is up."""

import logging
import time
from collections.abc import Mapping

from flwr.app import Message
from flwr.serverapp import Grid

logger = logging.getLogger(__name__)

_POLL = 0.25  # seconds; Flower's own loop sleeps for three


def exchange(grid: Grid, messages: Mapping[int, Message], seconds: float) -> dict[int, Message]:
    """Send a message to each node and wait for the replies, at most ``seconds``.

    Both mappings are by node id. Whoever is missing in the result did not answer; an error reply
    is logged and counts as no answer.
    """
    deadline = time.monotonic() + seconds
    waiting: dict[str, int] = {}
    for node, message in messages.items():
        # One by one: a reply is matched to its node by the id that pushing returns, because the
        # error reply for a node that is gone does not name it.
        for message_id in grid.push_messages([message]):
            waiting[message_id] = node
    replies: dict[int, Message] = {}
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            node = waiting.pop(reply.metadata.reply_to_message_id)
            if reply.has_error():
                logger.warning("node %d did not answer: %s", node, _one_line(reply.error.reason))
            else:
                replies[node] = reply
        if not waiting or time.monotonic() >= deadline:
            break
        time.sleep(_POLL)
    return replies


def _one_line(reason: str | None) -> str:
    lines = [line.strip() for line in (reason or "no reason given").splitlines() if line.strip()]
    return lines[-1]
