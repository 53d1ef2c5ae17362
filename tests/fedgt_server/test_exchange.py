"""Messages are sent, replies collected, until all are there or the time is up."""

import time
from collections.abc import Iterable

import pytest
from flwr.app import Error, Message, MessageType
from flwr.common.constant import ErrorCode

from fedgt_server.exchange import PendingQueries, exchange, replies_as_they_come
from shared.wire import Question
from tests.fedgt_server.grid import NEVER, Node, ScriptedGrid

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.timeout(120)]


def queries(grid: ScriptedGrid) -> list[Message]:
    return [Message(Question().to_records(), node, MessageType.QUERY) for node in grid.nodes]


def test_nobody_to_ask() -> None:
    grid = ScriptedGrid()
    assert exchange(grid, [], NEVER).answers == {}


def test_all_answer_at_once_without_waiting_for_the_deadline() -> None:
    grid = ScriptedGrid(Node("a"), Node("b"))
    replies = exchange(grid, queries(grid), NEVER)
    assert sorted(replies.answers) == [1, 2]
    assert replies.raised == replies.lost == {}


def test_silent_and_late_nodes_end_at_the_deadline() -> None:
    grid = ScriptedGrid(Node("a"), Node("b", silent={0}), Node("c", late={0: NEVER}))
    started = time.monotonic()
    replies = exchange(grid, queries(grid), 0.1)
    assert time.monotonic() - started >= 0.1
    assert sorted(replies.answers) == [1]
    assert replies.raised == replies.lost == {}


def test_replies_are_passed_on_as_they_come() -> None:
    grid = ScriptedGrid(Node("a"), Node("b", late={0: NEVER}), Node("c", fails={0}))
    replies = replies_as_they_come(grid, iter(queries(grid)), lambda _: NEVER)
    assert [next(replies)[0], next(replies)[0]] == [1, 3]
    grid.deliver()
    assert [node for node, _ in replies] == [2]


def test_late_but_in_time_is_an_answer() -> None:
    grid = ScriptedGrid(Node("a", late={0: 0.05}))
    assert sorted(exchange(grid, queries(grid), NEVER).answers) == [1]


def test_late_reply_to_an_earlier_query_is_not_taken_for_a_new_one() -> None:
    grid = ScriptedGrid(Node("a", late={0: NEVER}))
    assert exchange(grid, queries(grid), 0.0).answers == {}
    grid.deliver()
    grid.nodes[1].silent = {0}
    assert exchange(grid, queries(grid), 0.1).answers == {}


def test_an_error_is_no_answer_and_ends_no_exchange() -> None:
    grid = ScriptedGrid(Node("a", fails={0}), Node("b"))
    replies = exchange(grid, queries(grid), NEVER)
    assert sorted(replies.answers) == [2]
    assert replies.raised == {1: "no memory"}


class Unreachable(ScriptedGrid):
    """Answers for a node that is gone, as Flower's own link does."""

    reason = " \n "

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        replies = list(super().pull_messages(message_ids))
        for reply in replies:
            reply.__dict__["_content"] = None
            reply.__dict__["_error"] = Error(ErrorCode.NODE_UNAVAILABLE, self.reason)
        return replies


def test_error_without_a_reason() -> None:
    grid = Unreachable(Node("a"))
    replies = exchange(grid, queries(grid), NEVER)
    assert not replies.raised
    assert not replies.answers
    assert "no reason given" in replies.lost[1]


class Refusing(ScriptedGrid):
    """Cannot send."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return ["" for _ in messages]


def test_message_that_could_not_be_sent_is_not_waited_for() -> None:
    grid = Refusing(Node("a"))
    assert exchange(grid, queries(grid), NEVER).answers == {}


def test_pending_queries_are_answered_sooner_or_later() -> None:
    grid = ScriptedGrid(Node("a"), Node("b", late={0: NEVER}), Node("c", fails={0}))
    pending = PendingQueries()
    assert pending.receive(grid).answers == {}
    pending.send(grid, queries(grid), 60.0)
    first = pending.receive(grid)
    assert sorted(first.answers) == [1]
    assert first.raised == {3: "no memory"}
    assert pending.receive(grid).answers == {}
    grid.deliver()
    assert sorted(pending.receive(grid).answers) == [2]


def test_a_query_without_an_answer_is_sent_again() -> None:
    grid, pending = ScriptedGrid(Node("a", hiccups={0})), PendingQueries()
    pending.send(grid, queries(grid), 60.0)
    pending.send(grid, queries(grid), 60.0)
    assert pending.receive(grid).answers == {}  # not asked a second time
    pending = PendingQueries()
    grid.nodes[1].hiccups = {0}
    pending.send(grid, queries(grid), -1.0)
    pending.send(grid, queries(grid), 60.0)
    assert sorted(pending.receive(grid).answers) == [1]
