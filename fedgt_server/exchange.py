"""Messages out, answers in, until all are there or the time is up."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import Error, Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

_POLL = 0.25  # seconds; Flower's own loop sleeps for three

# Errors of the institution's app: asking again is of no use until somebody there mends it.
_RAISED = (ErrorCode.CLIENT_APP_RAISED_EXCEPTION, ErrorCode.LOAD_CLIENT_APP_EXCEPTION)


@dataclass(frozen=True)
class Answers:
    """What came back, by node id; whoever is in neither did not answer in time."""

    replies: dict[int, Message] = field(default_factory=dict)
    raised: dict[int, str] = field(default_factory=dict)  # the institution's app failed: why
    lost: dict[int, str] = field(default_factory=dict)  # the message did not get there: why


def exchange(grid: Grid, messages: Mapping[int, Message], seconds: float) -> Answers:
    """Send a message to each node and wait for the answers, at most ``seconds``."""
    deadline = time.monotonic() + seconds
    waiting = _push(grid, messages)
    answers = Answers()
    while waiting:
        for reply in grid.pull_messages(list(waiting)):
            _sort(answers, waiting.pop(reply.metadata.reply_to_message_id), reply)
        left = deadline - time.monotonic()
        if not waiting or left <= 0:
            break
        time.sleep(min(_POLL, left))
    return answers


class Questions:
    """Messages whose answers nobody waits for: they are there one time or another."""

    def __init__(self) -> None:
        self._waiting: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def ask(self, grid: Grid, messages: Mapping[int, Message], seconds: float) -> None:
        """Send a message to each node, unless one is on its way; it is void after ``seconds``."""
        now = time.monotonic()
        for message_id in [key for key, until in self._until.items() if until < now]:
            self._forget(message_id)
        asked = set(self._waiting.values())
        pushed = _push(grid, {node: m for node, m in messages.items() if node not in asked})
        self._waiting |= pushed
        self._until |= dict.fromkeys(pushed, now + seconds)

    def answers(self, grid: Grid) -> Answers:
        """What has come back since the last call."""
        answers = Answers()
        for reply in grid.pull_messages(list(self._waiting)) if self._waiting else ():
            _sort(answers, self._forget(reply.metadata.reply_to_message_id), reply)
        return answers

    def _forget(self, message_id: str) -> int:
        del self._until[message_id]
        return self._waiting.pop(message_id)


def _push(grid: Grid, messages: Mapping[int, Message]) -> dict[str, int]:
    """Send messages; the nodes by the ids under which their replies will come."""
    waiting: dict[str, int] = {}
    for node, message in messages.items():
        # One by one: a reply is matched to its node by the id that pushing returns, because the
        # error reply for a node that is gone does not name it.
        for message_id in grid.push_messages([message]):
            if message_id:  # Flower has none for a message that it could not send
                waiting[message_id] = node
    return waiting


def _sort(answers: Answers, node: int, reply: Message) -> None:
    if not reply.has_error():
        answers.replies[node] = reply
    elif reply.error.code in _RAISED:
        answers.raised[node] = _one_line(reply.error)
    else:
        answers.lost[node] = _one_line(reply.error)


def _one_line(error: Error) -> str:
    lines = [line.strip() for line in (error.reason or "").splitlines() if line.strip()]
    return lines[-1] if lines else f"no reason given (code {error.code})"
