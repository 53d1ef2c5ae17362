"""A grid whose nodes do as a test says: answer, fail, stay silent, come late, leave, join."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import uuid4

import numpy as np
from flwr.app import Error, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.proto.node_pb2 import NodeInfo

from deploy.engines.in_process_grid import InProcessGrid
from deploy.settings import resolve_settings
from shared.config import RunConfig, Scalar
from shared.precision import Precision
from shared.version import installed_version
from shared.wire import (
    GLOBAL_NODES,
    UPLOAD_WITHHELD,
    Arrays,
    Instruction,
    Introduction,
    Profile,
    Question,
    Update,
)

PROFILE = Profile(
    installed_version(), ["age", "debt"], ["good", "bad"], {"weight": [3], "bias": [2]}
)
# Longer than any test may take: one that waits for it fails.
NEVER = 1e6  # seconds
INITIAL: Arrays = {"weight": np.zeros(3, np.float32), "bias": np.ones(2, np.float32)}


def settings(**changed: Scalar) -> RunConfig:
    """Return settings of a small federation that does not wait long."""
    values: dict[str, Scalar] = {
        "rounds": 3,
        "hidden": 4,
        "heads": 1,
        "layers": 1,
        "global-nodes": 2,
        "wire-precision": "float32",
        "min-institutions": 2,
        "round-deadline": 0.15,
        "give-up-after": 0.3,
    }
    return resolve_settings(values | {key.replace("_", "-"): v for key, v in changed.items()})


@dataclass
class Node:
    """An institution, and what goes wrong with it; rounds count from 1, introductions are 0."""

    institution: str
    registered: str = ""
    profile: Profile = PROFILE
    present: bool = True
    silent: set[int] = field(default_factory=set)
    fails: set[int] = field(default_factory=set)
    reason: str = "Traceback\n  …\nno memory\n"  # of its failures
    late: dict[int, float] = field(default_factory=dict)  # seconds
    spoilt: set[int] = field(default_factory=set)  # rounds whose update holds NaN
    garbled: set[int] = field(default_factory=set)  # rounds whose reply has no facts
    hiccups: set[int] = field(default_factory=set)  # silent only once
    uploads: bool = True
    withholds: set[int] = field(default_factory=set)  # rounds after its privacy budget is spent
    measures: bool = True
    precision: Precision = "float32"
    accuracy: dict[int, float] = field(default_factory=dict)
    share: float | None = None  # of its largest class among test nodes
    epsilon: dict[int, float] = field(default_factory=dict)  # spent by its own account
    heard: list[Instruction] = field(default_factory=list)
    asked_for_initial: int = 0
    notices: list[str] = field(default_factory=list)  # what the coordinator told it

    def answer(self, message: Message) -> tuple[Message | None, float]:
        """Return the reply, if any, and in how many seconds it arrives."""
        number = 0
        if message.metadata.message_type == MessageType.TRAIN:
            self.heard.append(Instruction.from_records(message.content))
            number = self.heard[-1].round_number
            told = self.heard[-1].notice
        else:
            question = Question.from_records(message.content)
            self.asked_for_initial += question.want_initial
            told = question.notice
        self.notices += [told] if told else []
        if number in self.silent | self.hiccups:
            self.hiccups.discard(number)
            return None, 0.0
        if number in self.fails:
            error = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, self.reason)
            return Message(error, reply_to=message), 0.0
        content = self._introduction(message) if number == 0 else self._update(number)
        return Message(content, reply_to=message), self.late.get(number, 0.0)

    def _introduction(self, message: Message) -> RecordDict:
        if 0 in self.garbled:
            return RecordDict()
        wanted = Question.from_records(message.content).want_initial
        return Introduction(self.institution, self.profile, INITIAL if wanted else {}).to_records()

    def _update(self, number: int) -> RecordDict:
        if number in self.garbled or self.heard[-1].finish:
            return RecordDict()
        rng = np.random.default_rng([number, *self.institution.encode()])
        arrays: Arrays = {
            "weight": rng.standard_normal(3).astype(np.float32),
            "bias": rng.standard_normal(2).astype(np.float32),
            GLOBAL_NODES: rng.standard_normal((2, 2, 4)).astype(np.float32),
        }
        if number in self.spoilt:
            arrays["bias"][1] = np.nan
        metrics = {"test_accuracy": 0.5, "val_accuracy": self.accuracy.get(number, 0.5)}
        if self.share is not None:
            metrics["test_majority_share"] = self.share
        if number in self.epsilon:
            metrics["epsilon_total"] = self.epsilon[number]
        if number in self.withholds:
            metrics[UPLOAD_WITHHELD] = 1.0
        return Update(
            self.institution,
            arrays if self.uploads and number not in self.withholds else {},
            metrics if self.measures else {},
        ).to_records(self.precision)


class ScriptedGrid(InProcessGrid):
    """Nodes by id, numbered from 1."""

    def __init__(self, *nodes: Node) -> None:
        super().__init__(ClientApp(), [], {})
        self.nodes = dict(enumerate(nodes, start=1))
        self._due: dict[str, tuple[float, Message]] = {}

    def get_node_ids(self) -> Iterable[int]:
        return [node for node, script in self.nodes.items() if script.present]

    def get_nodes(self) -> Iterable[NodeInfo]:
        return [
            NodeInfo(node_id=node, name=script.registered)
            for node, script in self.nodes.items()
            if script.present
        ]

    def deliver(self) -> None:
        """Let all replies that are late arrive now."""
        self._due = {key: (0.0, reply) for key, (_, reply) in self._due.items()}

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        pushed = []
        for message in messages:
            message_id = str(uuid4())
            message.metadata.__dict__["_message_id"] = message_id
            reply, seconds = self.nodes[message.metadata.dst_node_id].answer(message)
            if reply is not None:
                self._due[message_id] = (time.monotonic() + seconds, reply)
            pushed.append(message_id)
        return pushed

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        now = time.monotonic()
        ready = [key for key in message_ids if key in self._due and self._due[key][0] <= now]
        return [self._due.pop(key)[1] for key in ready]
