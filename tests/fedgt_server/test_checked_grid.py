"""Replies whose objects Flower cannot read, or which say that they are another's, from its grid."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.app.message import remove_content_from_message
from flwr.common.serde import message_to_proto
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_id,
    get_object_tree,
)
from flwr.supercore.run import Run
from flwr.superlink.grid import http_grid
from flwr.superlink.grid.http_grid import HttpGrid

from deploy.flower.messages import identify_as_superlink
from fedgt_server.checked_grid import CheckedGrid
from fedgt_server.exchange import exchange
from shared.flower import limit_pulling
from tests.fedgt_server.grid import NEVER

pytestmark = [pytest.mark.usefixtures("quick"), pytest.mark.timeout(120)]

HOSTILE, HONEST = 1, (2, 3)
Objects = dict[str, bytes]
Change = Callable[[Message, Objects], str]  # the id of the message in its place


def reply_to(message: Message) -> Message:
    node = message.metadata.dst_node_id  # in every object, or two replies would share them
    array = Array("uint8", (1,), "safetensors", bytes([node]))
    records: dict[str, ArrayRecord | MetricRecord | ConfigRecord] = {
        "arrays": ArrayRecord({"packed": array}),
        "facts": ConfigRecord({"node": node}),
        "metrics": MetricRecord({"node": node}),
    }
    return Message(RecordDict(records), reply_to=message)


class SuperLink:
    """Flower's runtime API, with replies at hand as soon as messages are pushed."""

    def __init__(self, change: Change) -> None:
        self._change = change
        self._replies: dict[str, Any] = {}  # by what they answer, until they are pulled
        self._objects: Objects = {}
        self.announced: set[str] = set()  # objects that do not come
        self.requests = 0
        self.down = False

    def push(self, message: Message) -> str:
        message_id = message.object_id
        message.metadata.__dict__["_message_id"] = message_id
        reply = reply_to(message)
        objects = {one: found.deflate() for one, found in get_all_nested_objects(reply).items()}
        said = reply.object_id
        if message.metadata.dst_node_id == HOSTILE:
            said = self._change(reply, objects)
        self._objects |= objects
        reply.metadata.__dict__["_message_id"] = said
        proto = message_to_proto(remove_content_from_message(reply))
        tree = get_object_tree(reply)
        tree.object_id = said
        self._replies[message_id] = proto, tree
        return message_id

    def PullMessages(self, request: Any) -> Any:  # noqa: N802
        if self.down:
            raise httpx.ConnectError("no route")
        self.requests += 1
        found = [self._replies.pop(one) for one in request.message_ids if one in self._replies]
        return SimpleNamespace(
            messages_list=[proto for proto, _ in found],
            message_object_trees=[tree for _, tree in found],
        )

    def PullObject(self, request: Any) -> Any:  # noqa: N802
        if request.object_id in self.announced:
            return SimpleNamespace(object_found=True, object_available=False, object_content=b"")
        content = self._objects[request.object_id]
        return SimpleNamespace(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, request: Any) -> None:  # noqa: N802
        pass


class Wire(HttpGrid):
    """Flower's own grid, up to its requests."""

    def __init__(self, link: SuperLink) -> None:
        super().__init__(token="secret")
        self.link = link
        self.set_run(Run.create_empty(run_id=1))
        self._client = link  # type: ignore[assignment]

    def push_messages(self, messages: Any) -> list[str]:
        return [self.link.push(message) for message in messages]


def body(kind: str, content: bytes) -> Change:
    """Put a body in the place of that of the objects of a type, whose ids stay as they were."""

    def change(reply: Message, objects: Objects) -> str:
        for one, found in objects.items():
            if found.startswith(kind.encode() + b" "):
                head = found.split(b"\x00")[0].rsplit(b" ", 1)[0]
                objects[one] = head + b" %d\x00" % len(content) + content
        return reply.object_id

    return change


def head(kind: str, new: bytes) -> Change:
    """Put a head in the place of that of the objects of a type."""

    def change(reply: Message, objects: Objects) -> str:
        for one, found in objects.items():
            if found.startswith(kind.encode() + b" "):
                objects[one] = new + b"\x00" + found.split(b"\x00", 1)[1]
        return reply.object_id

    return change


def no_message(reply: Message, objects: Objects) -> str:
    return reply.content.config_records["facts"].object_id


def saying(**claims: Any) -> Change:
    """Make the message's own object say something else than what Flower was told of it."""

    def change(reply: Message, objects: Objects) -> str:
        kept = dict(vars(reply.metadata))
        vars(reply.metadata).update({f"_{name}": value for name, value in claims.items()})
        content = reply.deflate()
        vars(reply.metadata).update(kept)
        objects[get_object_id(content)] = content
        return get_object_id(content)

    return change


BODIES = (b"", b"\xff" * 20, b"{}", b"[]", b"[" * 100_000, b"null")
RECORDS = ("ArrayRecord", "ConfigRecord", "MetricRecord", "RecordDict", "Array", "Message")
HOSTILE_REPLIES: dict[str, Change] = {
    **{f"{kind} of {content[:6]!r}": body(kind, content)
       for kind in RECORDS for content in BODIES},
    **{f"a {kind} that is a {other}": head(kind, other.encode() + b"  0")
       for kind in RECORDS for other in ("Array", "Message", "NoSuchType") if kind != other},
    "the message has a child that is not there": head("Message", b"Message " + b"a" * 64 + b" 0"),
    "no message": no_message,
    "another sender": saying(src_node_id=HONEST[0]),
    "an answer to another message": saying(reply_to_message_id="a" * 64),
    "an answer to nothing": saying(reply_to_message_id=""),
}  # fmt: skip


def questions() -> list[Message]:
    identify_as_superlink(run_id=1)
    return [Message(RecordDict(), node, MessageType.QUERY) for node in (HOSTILE, *HONEST)]


@pytest.mark.parametrize("name", HOSTILE_REPLIES)
def test_it_costs_only_its_sender(name: str) -> None:
    grid = CheckedGrid(Wire(SuperLink(HOSTILE_REPLIES[name])))
    exchange(grid, questions(), 0.0)  # those pulled at the same time may be lost, once
    for _ in range(2):
        replies = exchange(grid, questions(), 0.0)
        assert {*HONEST} <= replies.answers.keys()
        for node in HONEST:
            assert replies.answers[node].metadata.src_node_id == node
            facts = replies.answers[node].content.config_records["facts"]
            assert facts == {"node": node}
        if HOSTILE in replies.answers:  # what it sent can be read: others check what it says
            assert replies.answers[HOSTILE].metadata.src_node_id == HOSTILE


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no message", "its reply cannot be read (AttributeError)"),
        ("another sender", "its reply names another sender"),
    ],
)
def test_the_reason_is_told(name: str, said: str) -> None:
    grid = CheckedGrid(Wire(SuperLink(HOSTILE_REPLIES[name])))
    exchange(grid, questions(), 0.0)
    assert exchange(grid, questions(), 0.0).raised == {HOSTILE: said}


def test_replies_are_pulled_together_while_all_can_be_read() -> None:
    link = SuperLink(lambda reply, _: reply.object_id)
    grid = CheckedGrid(Wire(link))
    assert sorted(exchange(grid, questions(), NEVER).answers) == [HOSTILE, *HONEST]
    assert link.requests == 1


def test_a_reply_that_is_announced_and_does_not_come_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def announce(reply: Message, objects: Objects) -> str:
        link.announced |= objects.keys() - {reply.object_id}
        return reply.object_id

    before = inflatable_utils.pull_objects
    monkeypatch.setattr(http_grid, "pull_objects", before)  # so that it is put back afterwards
    link = SuperLink(announce)
    limit_pulling(0.1)
    started = time.monotonic()
    replies = exchange(CheckedGrid(Wire(link)), questions(), 0.0)
    assert time.monotonic() - started < 30
    assert replies.answers.keys() == {*HONEST}
    assert "objects are unavailable" in replies.lost[HOSTILE]


def test_waiting_for_replies_is_checked_too() -> None:
    grid = CheckedGrid(Wire(SuperLink(HOSTILE_REPLIES["another sender"])))
    replies = list(grid.send_and_receive(questions()))
    assert [reply.has_error() for reply in replies] == [True, False, False]


def test_a_superlink_that_is_gone_is_no_reply() -> None:
    link = SuperLink(lambda reply, _: reply.object_id)
    link.down = True
    grid = CheckedGrid(Wire(link))
    with pytest.raises(httpx.ConnectError):
        exchange(grid, questions(), 0.0)
