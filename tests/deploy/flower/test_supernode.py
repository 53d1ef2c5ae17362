"""What the supernode does with the bundle of a run: Flower's own code, and its own state."""

import hashlib
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import grpc
import pytest
from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.supercore.constant import TaskType
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_object import get_object_tree
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supernode import start_client_internal as connection
from flwr.supernode.nodestate import NodeStateFactory

from deploy.approval.approved_code import ApprovedCode
from deploy.flower import supernode
from deploy.flower.messages import assign_message_id, identify_as_superlink
from deploy.flower.supernode import (
    OneLineExit,
    connection_error,
    heard_by,
    lost_connection,
    with_approval,
)
from shared.flower import is_app_error
from tests.harness.bundles import changed_bundle, installed_bundle

RUN, NODE = 7, 1


@dataclass
class Coordinator:
    """Sends a message of a run with any bundle."""

    bundle: bytes
    change: Callable[[Run], Run] = lambda run: run
    asked: list[str] = field(default_factory=list)

    def receive(self) -> Any:
        identify_as_superlink(RUN)
        message = Message(RecordDict(), NODE, "train")
        assign_message_id(message)
        return message, get_object_tree(message)

    def get_run(self, run_id: int) -> Run:
        found = hashlib.sha256(self.bundle).hexdigest()
        return self.change(replace(Run.create_empty(run_id), fab_hash=found))

    def get_fab(self, fab_hash: str, run_id: int) -> Fab:
        self.asked.append(fab_hash)
        return Fab(fab_hash, self.bundle, {})


class Heard:
    """Takes note of what leaves without the app."""

    def __init__(self) -> None:
        self.said: list[str | None] = []

    def connected(self) -> None: ...

    def answered(self) -> None:
        self.said.append("answered")

    def received(self, run: int, round_number: str) -> None: ...

    def refused(self, reply: Message) -> None:
        self.said.append(reply.error.reason)

    def over(self, run: int) -> None: ...


class Supernode:
    """Flower's state of a supernode."""

    def __init__(self) -> None:
        self.heard = Heard()
        self.state = NodeStateFactory(ObjectStoreFactory()).state()
        self.state.set_node_id(NODE)
        self._pull = with_approval(connection, ApprovedCode("bank-a").refusal, self.heard)

    def pull(self, coordinator: Coordinator) -> None:
        pulled = self._pull(
            state=self.state,
            object_store=self.state.object_store,
            node_config={},
            receive=coordinator.receive,
            get_run=coordinator.get_run,
            get_fab=coordinator.get_fab,
            pull_object=lambda run, name: b"",
            confirm_message_received=lambda run, name: None,
            trusted_entities=None,
        )
        assert pulled in (RUN, None)

    def refusals(self) -> list[Message]:
        return list(self.state.get_messages(is_reply=True))


def test_answers_to_heartbeats_are_told() -> None:
    answers, heard = iter((True, False)), Heard()
    sender = heard_by(heard, HeartbeatSender)(lambda: next(answers))
    assert (sender.heartbeat_fn(), sender.heartbeat_fn()) == (True, False)
    assert heard.said == ["answered"]


class Refusal(grpc.RpcError):  # type: ignore[misc]
    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAUTHENTICATED

    def details(self) -> str:
        return "Invalid node ID"


def test_a_refused_heartbeat_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(supernode, "log", lambda _, text, *values: said.append(text % values))

    def refuse() -> bool:
        raise Refusal

    with pytest.raises(SystemExit):  # which ends the thread of heartbeats without a traceback
        heard_by(Heard(), HeartbeatSender)(refuse).heartbeat_fn()
    assert said == ["the coordinator refuses this supernode: UNAUTHENTICATED: Invalid node ID"]


class Busy(Refusal):
    def details(self) -> str:
        code = ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED
        return json.dumps(FlowerError(code, "", "another is\nconnected").to_json("failed"))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Refusal(), "Invalid node ID"),
        (Busy(), "another is connected"),
        (ValueError("no\nidea"), "no idea"),
    ],
)
def test_who_is_not_let_in_reads_why_in_one_line(error: Exception, reason: str) -> None:
    # As Flower ends a program: see flwr_exit.
    text = f"Exit Code: 305\n{connection_error(error)}\nIt failed.\n\nRead: <https://x/305.html>"
    record = logging.LogRecord("flwr", logging.ERROR, "", 0, text, (), None)
    assert OneLineExit().filter(record)
    assert record.getMessage() == f"no connection to the coordinator: {reason}"


def test_other_lines_stay() -> None:
    for text in ("Exit Code: 0", "one\ntwo"):
        record = logging.LogRecord("flwr", logging.INFO, "", 0, text, (), None)
        assert OneLineExit().filter(record)
        assert record.getMessage() == text


def test_a_lost_connection_is_told_from_other_errors() -> None:
    """Flower's own end of a connection fails after it was refused."""
    ended, failed = SystemExit(0), RuntimeError("Heartbeat sender is not running.")
    ended.__context__, failed.__context__ = Refusal(), ended
    assert lost_connection(failed) == "UNAUTHENTICATED: Invalid node ID"
    assert lost_connection(RuntimeError("else")) == ""


def as_agent(run: Run) -> Run:
    return replace(run, primary_task_type=TaskType.AGENT_APP)


@pytest.mark.parametrize(
    ("coordinator", "reason"),
    [
        (
            lambda: Coordinator(changed_bundle(app=b"\n")),
            "bank-a refuses the app with code sha256:",
        ),
        (lambda: Coordinator(b"no bundle"), "bank-a refuses the app: the bundle cannot be read"),
        (lambda: Coordinator(installed_bundle(), as_agent), "runs no agent apps"),
    ],
)
def test_a_refusal_is_answered(coordinator: Callable[[], Coordinator], reason: str) -> None:
    supernode = Supernode()
    sender = coordinator()
    supernode.pull(sender)
    [reply] = supernode.refusals()
    assert reply.error.code == ErrorCode.INVALID_FAB
    assert is_app_error(reply.error)  # which is no passing fault
    assert reason in (reply.error.reason or "")
    assert supernode.heard.said == [reply.error.reason]
    # Nothing of it is kept, and no process is started for it.
    assert supernode.state.get_run(RUN) is None
    assert not supernode.state.get_tasks()
    assert supernode.state.get_fab(hashlib.sha256(sender.bundle).hexdigest()) is None


def test_an_approved_bundle_is_asked_for_once() -> None:
    supernode, honest = Supernode(), Coordinator(installed_bundle())
    supernode.pull(honest)
    assert not supernode.refusals()
    assert supernode.state.get_run(RUN) is not None
    # The coordinator has another bundle by now: the run goes on with the approved one.
    exchanged = Coordinator(changed_bundle(app=b"\n"))
    supernode.pull(exchanged)
    assert not exchanged.asked
    assert not supernode.refusals()
    found = supernode.state.get_fab(honest.asked[0])
    assert found is not None
    assert found.content == installed_bundle()
    # Who starts again asks again.
    other = Supernode()
    other.pull(exchanged)
    assert len(other.refusals()) == 1
