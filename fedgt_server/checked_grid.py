"""A grid that believes no reply: one that cannot be read, or says it is another's, is an error.

Flower reads the objects of a reply where they are pulled, and takes its sender from them.
"""

import logging
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from fedgt_server.exchange import replies_as_they_come
from shared.flower import error_reply_to, is_connection_error

if TYPE_CHECKING:
    from flwr.proto.node_pb2 import NodeInfo
    from flwr.supercore.run import Run

logger = logging.getLogger(__name__)


class CheckedGrid(Grid):
    """Flower's grid, whose replies come from the nodes that were asked.

    Replies are pulled together. One that cannot be read takes those with it that are pulled at the
    same time, once: from then on every reply is pulled by itself.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._asked: dict[str, int] = {}  # node by the id of a message that is not answered yet
        self._one_by_one = False

    def set_run(self, run: "Run") -> None:
        """Replace the run's description."""
        self._grid.set_run(run)

    @property
    def run(self) -> "Run":
        """Return the run's description."""
        return self._grid.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Create a message to a node."""
        return self._grid.create_message(content, message_type, dst_node_id, group_id, ttl)

    def get_node_ids(self) -> Iterable[int]:
        """Return the nodes that are connected."""
        return self._grid.get_node_ids()

    def get_nodes(self) -> "Iterable[NodeInfo]":
        """Return the nodes that are connected, with their registered names."""
        return self._grid.get_nodes()

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send messages, and remember which node each is for."""
        pushed = []
        for message in messages:
            for message_id in self._grid.push_messages([message]):
                pushed.append(message_id)
                if message_id:
                    self._asked[message_id] = message.metadata.dst_node_id
        return pushed

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the replies to these messages, with errors in the place of those that lie."""
        asked = list(message_ids)
        if not self._one_by_one:
            try:
                return self._checked(self._grid.pull_messages(asked), asked)
            except Exception as error:  # whatever a reply holds: it must not end the run
                if is_connection_error(error):
                    raise
                self._one_by_one = True
                logger.warning("a reply cannot be read (%s)", type(error).__name__)
        return [reply for message_id in asked for reply in self._pull(message_id)]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages and wait until all are answered, at most ``timeout`` seconds."""
        seconds = math.inf if timeout is None else timeout
        return [reply for _, reply in replies_as_they_come(self, messages, lambda _: seconds)]

    def _pull(self, message_id: str) -> list[Message]:
        try:
            return self._checked(self._grid.pull_messages([message_id]), [message_id])
        except Exception as error:
            if is_connection_error(error):
                raise
            return self._error(message_id, f"its reply cannot be read ({type(error).__name__})")

    def _checked(self, replies: Iterable[Message], asked: list[str]) -> list[Message]:
        """Return replies of nodes that were asked, each once."""
        found: dict[str, list[Message]] = {}
        for reply in replies:
            metadata = reply.metadata
            message_id = metadata.reply_to_message_id
            if message_id not in asked or message_id in found:
                logger.warning("a reply is left out: it answers nothing that was asked")
            # Flower's own errors need not name the node that they are about.
            elif not reply.has_error() and metadata.src_node_id != self._asked.get(message_id):
                found[message_id] = self._error(message_id, "its reply names another sender")
            else:
                found[message_id] = [reply]
                self._asked.pop(message_id, None)
        return [reply for replies in found.values() for reply in replies]

    def _error(self, message_id: str, reason: str) -> list[Message]:
        node = self._asked.pop(message_id, None)
        return [] if node is None else [error_reply_to(message_id, node, reason)]
