"""Messages out, answers in, until all are there or the time is up."""

import time
from collections.abc import Iterable

import pytest
from flwr.app import Error, Message, MessageType
from flwr.common.constant import ErrorCode

from fedgt_server.exchange import Questions, exchange
from shared.wire import Question
from tests.fedgt_server.grid import Node, ScriptedGrid

pytestmark = pytest.mark.usefixtures("quick")


def questions(grid: ScriptedGrid) -> dict[int, Message]:
    return {node: Message(Question().to_records(), node, MessageType.QUERY) for node in grid.nodes}


def test_nobody_to_ask() -> None:
    grid = ScriptedGrid()
    assert exchange(grid, {}, 10.0).replies == {}


def test_all_answer_at_once_without_waiting_for_the_deadline() -> None:
    grid = ScriptedGrid(Node("a"), Node("b"))
    started = time.monotonic()
    answers = exchange(grid, questions(grid), 30.0)
    assert time.monotonic() - started < 5.0
    assert sorted(answers.replies) == [1, 2]
    assert answers.raised == answers.lost == {}


def test_silent_and_late_nodes_end_at_the_deadline() -> None:
    grid = ScriptedGrid(Node("a"), Node("b", silent={0}), Node("c", late={0: 5.0}))
    started = time.monotonic()
    answers = exchange(grid, questions(grid), 0.1)
    assert 0.1 <= time.monotonic() - started < 2.0
    assert sorted(answers.replies) == [1]
    assert answers.raised == answers.lost == {}


def test_late_but_in_time_is_an_answer() -> None:
    grid = ScriptedGrid(Node("a", late={0: 0.05}))
    assert sorted(exchange(grid, questions(grid), 5.0).replies) == [1]


def test_late_reply_to_an_earlier_question_is_not_taken_for_a_new_one() -> None:
    grid = ScriptedGrid(Node("a", late={0: 0.05}))
    assert exchange(grid, questions(grid), 0.0).replies == {}
    grid.nodes[1].silent = {0}
    assert exchange(grid, questions(grid), 0.1).replies == {}


def test_an_error_is_no_answer_and_ends_no_exchange() -> None:
    grid = ScriptedGrid(Node("a", fails={0}), Node("b"))
    answers = exchange(grid, questions(grid), 30.0)
    assert sorted(answers.replies) == [2]
    assert answers.raised == {1: "no memory"}


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
    answers = exchange(grid, questions(grid), 30.0)
    assert not answers.raised
    assert not answers.replies
    assert "no reason given" in answers.lost[1]


class Refusing(ScriptedGrid):
    """Cannot send."""

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return ["" for _ in messages]


def test_message_that_could_not_be_sent_is_not_waited_for() -> None:
    grid = Refusing(Node("a"))
    started = time.monotonic()
    assert exchange(grid, questions(grid), 30.0).replies == {}
    assert time.monotonic() - started < 5.0


def test_questions_are_answered_one_time_or_another() -> None:
    grid = ScriptedGrid(Node("a"), Node("b", late={0: 0.05}), Node("c", fails={0}))
    pending = Questions()
    assert pending.answers(grid).replies == {}
    pending.ask(grid, questions(grid), 60.0)
    first = pending.answers(grid)
    assert 1 in first.replies
    assert first.raised == {3: "no memory"}
    answered, deadline = set(first.replies), time.monotonic() + 30.0
    while 2 not in answered and time.monotonic() < deadline:
        answered |= pending.answers(grid).replies.keys()
    assert answered == {1, 2}


def test_a_question_without_an_answer_is_asked_again() -> None:
    grid, pending = ScriptedGrid(Node("a", hiccups={0})), Questions()
    pending.ask(grid, questions(grid), 60.0)
    pending.ask(grid, questions(grid), 60.0)
    assert pending.answers(grid).replies == {}  # not asked a second time
    pending = Questions()
    grid.nodes[1].hiccups = {0}
    pending.ask(grid, questions(grid), -1.0)
    pending.ask(grid, questions(grid), 60.0)
    assert sorted(pending.answers(grid).replies) == [1]
