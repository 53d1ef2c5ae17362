"""Sending messages to nodes and collecting their replies."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from flwr.app import Error, Message
from flwr.serverapp import Grid

from shared.flower import is_app_error
from shared.text import plain_line
from shared.wire import LONGEST_LINE

_POLL = 0.25  # seconds; Flower's own loop sleeps for three
_LONGEST_REASON = 10_000  # characters

# Called with the nodes that are awaited, again and again; what it raises ends the waiting.
Watch = Callable[[Collection[int]], None]


@dataclass(frozen=True)
class Replies:
    """What came back, by node id; a node in none of the three did not reply in time."""

    answers: dict[int, Message] = field(default_factory=dict)
    raised: dict[int, str] = field(default_factory=dict)  # the institution's app failed: why
    lost: dict[int, str] = field(default_factory=dict)  # the message was not delivered: why

    def add(self, node: int, reply: Message) -> None:
        """Sort in the reply of a node."""
        if not reply.has_error():
            self.answers[node] = reply
        elif is_app_error(reply.error):
            self.raised[node] = error_line(reply.error)
        else:
            self.lost[node] = error_line(reply.error)


def exchange(
    grid: Grid, messages: Iterable[Message], seconds: float, watch: Watch = lambda _: None
) -> Replies:
    """Send messages and wait until all are answered, at most ``seconds``."""
    replies = Replies()
    for node, reply in replies_as_they_come(grid, messages, lambda _: seconds, watch):
        replies.add(node, reply)
    return replies


def replies_as_they_come(
    grid: Grid,
    messages: Iterable[Message],
    seconds: Callable[[int], float],
    watch: Watch = lambda _: None,
) -> Iterator[tuple[int, Message]]:
    """Send messages; yield the node and its reply for each that is answered in time.

    That is, within ``seconds`` of any node that is awaited still. Replies are not kept here:
    together they may not fit into memory.
    """
    started = time.monotonic()
    waiting = _push(grid, messages)
    while waiting:
        pulled = list(grid.pull_messages(list(waiting)))
        while pulled:
            reply = pulled.pop(0)
            yield waiting.pop(reply.metadata.reply_to_message_id), reply
        left = started + max(map(seconds, waiting.values()), default=0.0) - time.monotonic()
        if not waiting or left <= 0:
            break
        watch(waiting.values())
        time.sleep(min(_POLL, left))


class PendingQueries:
    """Messages whose replies are collected later, whenever they have come."""

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}
        self._expiry: dict[str, float] = {}

    def send(self, grid: Grid, messages: Iterable[Message], seconds: float) -> None:
        """Send messages to nodes that have none pending; a message expires after ``seconds``."""
        now = time.monotonic()
        for message_id in [key for key, expiry in self._expiry.items() if expiry < now]:
            self._forget(message_id)
        asked = set(self._waiting.values())
        pushed = _push(grid, [m for m in messages if m.metadata.dst_node_id not in asked])
        self._waiting |= pushed
        self._expiry |= dict.fromkeys(pushed, now + seconds)

    def receive(self, grid: Grid) -> Replies:
        """Return the replies that have come since the last call, without waiting."""
        replies = Replies()
        for reply in grid.pull_messages(list(self._waiting)) if self._waiting else ():
            replies.add(self._forget(reply.metadata.reply_to_message_id), reply)
        return replies

    def _forget(self, message_id: str) -> int:
        del self._expiry[message_id]
        return self._waiting.pop(message_id)


def error_line(error: Error) -> str:
    """Return the last line of an error reply's reason, which names the exception."""
    # Only its end: a reason may be of any length.
    lines = [line for line in (error.reason or "")[-_LONGEST_REASON:].splitlines() if line.strip()]
    return plain_line(lines[-1], LONGEST_LINE) if lines else f"no reason given (code {error.code})"


def send(grid: Grid, messages: Iterable[Message]) -> None:
    """Send messages whose replies are of no interest."""
    _push(grid, messages)


def _push(grid: Grid, messages: Iterable[Message]) -> dict[str, int]:
    """Send messages and return the node of each by the id under which its reply will come."""
    waiting: dict[str, int] = {}
    for message in messages:
        # One by one: a reply is matched to its node by the id that pushing returns, because the
        # error reply for a node that is gone does not name it.
        for message_id in grid.push_messages([message]):
            if message_id:  # Flower has none for a message that it could not send
                waiting[message_id] = message.metadata.dst_node_id
    return waiting
