"""Institutions whose worker is a real process."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil
from flwr.app import Message, MessageType, RecordDict

from deploy.engines.in_process_grid import InProcessGrid
from fedgt_client.app import app
from fedgt_client.node import NodeConfig
from fedgt_client.worker.process import WorkerDirectory
from shared.config import Scalar
from shared.wire import Arrays, Instruction, Introduction, Question, Update
from tests.fedgt_client.graphs import settings
from tests.harness.policies import ANYTHING_GOES

TIMEOUT = 120.0  # seconds, on a machine that has other things to do


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that must happen."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Return whether a process exists and has not ended."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def wait_for_end(pid: int) -> None:
    wait_until(lambda: not is_running(pid), f"process {pid} has ended")


class Institution:
    """One that gets messages through Flower's app, in one run."""

    def __init__(self, data: Path, state: Path, *, worker: bool = True, run_id: int = 1) -> None:
        self.state = state
        self.node = NodeConfig(
            institution="alba",
            data_dir=str(data),
            state_dir=str(state),
            worker=worker,
            policy=ANYTHING_GOES,
        )
        self._run_id = run_id

    def send(self, kind: str, content: RecordDict, **changed: Scalar) -> Message:
        """Send a message in a run with settings of its own; return the reply."""
        config = settings(run_name=f"run-{self._run_id}", **changed).to_flower()
        grid = InProcessGrid(app, [self.node.to_flower()], config, self._run_id)
        (reply,) = grid.send_and_receive([Message(content, 1, kind)])
        return reply

    def introduce(self, **changed: Scalar) -> Introduction:
        """Ask for the starting point."""
        question = Question(want_initial=True).to_records()
        reply = self.send(MessageType.QUERY, question, **changed)
        assert not reply.has_error(), reply.error
        return Introduction.from_records(reply.content)

    def play(self, number: int, arrays: Arrays, **changed: Scalar) -> Update:
        """Train for a round."""
        instruction = Instruction(number, arrays).to_records()
        reply = self.send(MessageType.TRAIN, instruction, **changed)
        assert not reply.has_error(), reply.error
        return Update.from_records(reply.content)

    def rounds_on_disk(self) -> dict[str, bytes]:
        """Return its durable state."""
        return {path.name: path.read_bytes() for path in sorted(self.state.rglob("round-*"))}

    @property
    def directory(self) -> WorkerDirectory:
        """The directory of its worker."""
        return WorkerDirectory.create(self.node)

    @property
    def pid(self) -> int | None:
        """The process of its worker."""
        info = self.directory.worker(lambda: None)
        return info.pid if info else None

    def worker(self) -> int:
        """Return the process of its worker, which must exist and not be this one."""
        pid = self.pid
        assert pid is not None
        assert pid != os.getpid()
        return pid
