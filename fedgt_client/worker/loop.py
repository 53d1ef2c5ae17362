"""What runs in the worker process.

It ends with the run, with the supernode, after an idle time, when its socket is removed, and when
it is killed for the worker of another run. Its log lines go where the supernode's go: there an
operator looks for them, and they need no folder of their own.
"""

import argparse
import logging
import os
import threading
import time
from pathlib import Path

from flwr.app import Context, Message, MessageType

from fedgt_client.adapter import ClientCache, handle
from fedgt_client.error_replies import reply_or_error
from fedgt_client.worker import transport
from fedgt_client.worker.process import write_info
from fedgt_client.worker.supernode import Supernode
from shared.errors import FedGTError
from shared.wire import Instruction

logger = logging.getLogger(__name__)

_POLL = 0.5  # seconds between two looks for the supernode
_SEND_SECONDS = 60.0  # for the last reply


class Worker:
    """Answers messages one after the other, with clients that stay in memory."""

    def __init__(self, idle: float) -> None:
        self.idle = idle
        self._clients = ClientCache()
        self._idle_since: float | None = time.monotonic()  # None: at work
        self.run_is_over = threading.Event()

    def reply(self, message: Message, context: Context) -> Message:
        """Answer a message."""
        self._idle_since = None
        try:
            return reply_or_error(message, lambda: handle(message, context, self._clients))
        finally:
            self._idle_since = time.monotonic()
            if _is_last(message):
                self.run_is_over.set()

    def is_idle(self) -> bool:
        """Return whether there has been no message for too long."""
        idle_since = self._idle_since
        return idle_since is not None and time.monotonic() - idle_since > self.idle


def _is_last(message: Message) -> bool:
    """Return whether the run is over with this message."""
    try:
        return (
            message.metadata.message_type == MessageType.TRAIN
            and Instruction.from_records(message.content).finish
        )
    except (FedGTError, ValueError):  # it has no content, or another
        return False


def _wait_for_end(worker: Worker, supernode: Supernode, socket: Path) -> str:
    """Return why the process should end, as soon as it should."""
    while not worker.run_is_over.wait(_POLL):
        if supernode.is_gone():
            return "its supernode has ended"
        if not socket.exists():
            return "its socket was removed, as the supernode does when a run is over"
        if worker.is_idle():
            return f"no message for {worker.idle:g} s"
    return "the run is over"


def _show_log() -> None:
    """Log lines with the name of this process, beside the supernode's own."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"worker {os.getpid()}: %(message)s"))
    for name in ("fedgt_client", "shared"):
        logging.getLogger(name).setLevel(logging.INFO)
        logging.getLogger(name).addHandler(handler)


def main() -> None:
    """Run as the worker that ``process`` starts."""
    parser = argparse.ArgumentParser(description="The worker process of an institution.")
    for name, kind in (("pid-lock", int), ("run", int), ("idle", float), ("socket", Path)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--supernode", required=True)
    options = parser.parse_args()
    _show_log()
    supernode = Supernode([int(pid) for pid in options.supernode.split(",")])
    worker = Worker(options.idle)
    server = transport.serve(options.socket, worker.reply)
    # Locked by the process that started this one; the lock ends with it.
    write_info(options.pid_lock, options.run)
    logger.info("starts, for run %d", options.run)
    reason = _wait_for_end(worker, supernode, options.socket)
    logger.info("ends: %s", reason)
    if worker.run_is_over.is_set():
        server.stop(_SEND_SECONDS).wait()  # the last reply has to be sent
    os._exit(0)  # whatever the other thread may be doing
