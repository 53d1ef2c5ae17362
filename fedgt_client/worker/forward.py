"""A message to the institution's worker, and its reply."""

import logging
import time

import psutil
from flwr.app import Context, Message, MessageType

from fedgt_client.node import NodeConfig
from fedgt_client.policy import Policy
from fedgt_client.worker import transport
from fedgt_client.worker.process import WorkerDirectory, WorkerSpec, find_or_start, stop
from fedgt_client.worker.supernode import Supernode
from shared.config import RunConfig
from shared.errors import FedGTError

logger = logging.getLogger(__name__)

_STOP_SECONDS = 10.0  # to stop a worker that does not answer


class TooLateError(FedGTError):
    """Nobody waits for the reply any more."""


class TooMuchMemoryError(FedGTError):
    """The worker takes more memory than the institution allows."""


class Forwarder:
    """Lets the workers of a supernode answer messages."""

    def __init__(self, supernode: Supernode) -> None:
        self._supernode = supernode

    def forward(self, message: Message, context: Context, node: NodeConfig) -> Message:
        """Return the worker's reply, which must come by the round's deadline."""
        config = RunConfig.build(context.run_config)
        directory = WorkerDirectory.create(node)
        limits = node.limits or Policy()
        spec = WorkerSpec(context.run_id, node.worker_idle, self._supernode)
        seconds = min(config.round_deadline, limits.max_round_seconds)
        try:
            check = self._until(seconds)
            return _call(directory, spec, message, context, check, limits.max_memory_mb)
        except TooMuchMemoryError:
            stop(directory, context.run_id, self._until(_STOP_SECONDS))
            raise
        except TooLateError:
            # A round's result is of no use now, and the next round must not wait for it. An
            # institution that prepares its graph for the first time may go on with that.
            if message.metadata.message_type == MessageType.TRAIN:
                stop(directory, context.run_id, self._until(_STOP_SECONDS))
            raise

    def _until(self, seconds: float) -> transport.Check:
        deadline = time.monotonic() + seconds

        def check() -> None:
            if self._supernode.is_gone():
                raise FedGTError("this institution's supernode has ended")
            if time.monotonic() > deadline:
                raise TooLateError(f"this institution's worker did not answer within {seconds:g} s")

        return check


def _call(
    directory: WorkerDirectory,
    spec: WorkerSpec,
    message: Message,
    context: Context,
    check: transport.Check,
    memory_mb: int,
) -> Message:
    """Return the worker's reply.

    A worker that ends without one is replaced once. The new one continues from the durable state:
    a round that was finished already is repeated from the state before it.
    """
    ended = None
    for _ in range(2):
        pid = find_or_start(directory, spec, check, replace=ended)
        try:
            return transport.call(
                directory.socket, message, context, _within_memory(pid, memory_mb, check)
            )
        except ConnectionError as error:
            logger.warning("worker %d ended without an answer (%s)", pid, error)
            ended = pid
    raise FedGTError(
        "this institution's worker ended twice without an answer: see the supernode's log, and "
        "whether its memory suffices"
    )


def _within_memory(pid: int, limit: int, check: transport.Check) -> transport.Check:
    """Also check that a process takes at most ``limit`` MiB; 0: whatever it takes.

    It is watched, not limited by the system: libraries that get no more memory try again for ever.
    Files that it has mapped do not count.
    """
    if not limit:
        return check

    def check_both() -> None:
        check()
        try:
            memory = psutil.Process(pid).memory_info()
        except psutil.NoSuchProcess:
            return  # the call says so
        if (taken := (memory.rss - memory.shared) >> 20) > limit:
            raise TooMuchMemoryError(
                f"this institution's worker was stopped: it took {taken} MiB of memory, allowed: "
                f"at most {limit} ([policy] max-memory-mb)"
            )

    return check_both
