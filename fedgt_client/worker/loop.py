"""The resident process that keeps torch, graph and model warm between rounds.

It ends with the run, with the supernode, after an idle time, when it cannot be found any more, and
when it is ended for the worker of another run. Its log lines go where the supernode's go: there an
operator looks for them, and they need no folder of their own.
"""

import argparse
import json
import logging
import os
import queue
import socket
import threading
import time
from pathlib import Path

from flwr.app import Context, Message, MessageType

from fedgt_client.error_replies import answer_here
from fedgt_client.worker import transport
from fedgt_client.worker.supernode import Supernode
from shared.errors import FedGTError
from shared.wire import Instruction

logger = logging.getLogger("fedgt_client.worker")

_WATCH = 0.5  # seconds between two looks for the supernode
_PATIENCE = 60.0  # seconds for a request or an answer to pass

Request = tuple[socket.socket, Message, Context]


class Worker:
    """Takes requests from a listening socket, and answers them one after the other."""

    def __init__(self, listening: socket.socket, idle: float) -> None:
        self._listening = listening
        self._idle = idle
        self._requests: queue.Queue[Request] = queue.Queue()

    def run(self) -> str:
        """Answer until there is a reason to end.

        In the thread that calls: torch has its number of threads for each of ours.
        """
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            try:
                line, message, context = self._requests.get(timeout=self._idle)
            except queue.Empty:
                return f"no message for {self._idle:g} s"
            with line:
                self._answer(line, message, context)
            if _is_farewell(message):
                return "the run is over"

    def _answer(self, line: socket.socket, message: Message, context: Context) -> None:
        reply = answer_here(message, context)
        try:
            transport.send_reply(line, reply, _patience())
        except (OSError, FedGTError) as error:
            logger.warning("an answer was not taken: %s", error)

    def _listen(self) -> None:
        while True:
            try:
                line, _ = self._listening.accept()
            except OSError:  # this process is about to end
                return
            # A thread for each: nobody holds up the others by saying nothing.
            threading.Thread(target=self._read, args=(line,), daemon=True).start()

    def _read(self, line: socket.socket) -> None:
        try:
            self._requests.put((line, *transport.receive_request(line, _patience())))
        except (OSError, FedGTError) as error:
            logger.warning("a connection is refused: %s", error)
            line.close()


def watch(supernode: Supernode, place: Path) -> None:
    """End this process, whatever it does, when nobody needs it or can find it."""
    while not supernode.is_gone() and place.exists():
        time.sleep(_WATCH)
    logger.info("ends: its supernode has ended" if supernode.is_gone() else "ends: no socket")
    os._exit(0)


def _is_farewell(message: Message) -> bool:
    """Whether the run is over with this message."""
    try:
        return (
            message.metadata.message_type == MessageType.TRAIN
            and Instruction.from_records(message.content).finish
        )
    except (FedGTError, ValueError):  # it has no content, or another
        return False


def _patience() -> transport.Check:
    deadline = time.monotonic() + _PATIENCE

    def check() -> None:
        if time.monotonic() > deadline:
            raise FedGTError(f"the other side took longer than {_PATIENCE:g} s")

    return check


def _show_log() -> None:
    """Log lines with the name of this process, beside the supernode's own."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(f"worker {os.getpid()}: %(message)s"))
    for name in ("fedgt_client", "shared"):
        logging.getLogger(name).setLevel(logging.INFO)
        logging.getLogger(name).addHandler(handler)


def main() -> None:
    """Live as a worker."""
    parser = argparse.ArgumentParser(description="The resident process of an institution.")
    for name, kind in (("line", int), ("life", int), ("run", int), ("idle", float)):
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--supernode", required=True)
    options = parser.parse_args()
    # Locked by whoever started this process; the lock ends with it.
    life = os.fdopen(options.life, "w")
    json.dump({"pid": os.getpid(), "run": options.run}, life)
    life.flush()
    _show_log()
    supernode = Supernode([int(pid) for pid in options.supernode.split(",")])
    threading.Thread(target=watch, args=(supernode, options.socket), daemon=True).start()
    logger.info("starts, for run %d", options.run)
    with socket.socket(fileno=options.line) as listening:
        reason = Worker(listening, options.idle).run()
    logger.info("ends: %s", reason)
