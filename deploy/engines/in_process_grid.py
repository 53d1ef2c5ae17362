"""A grid in one process: the very same Strategy and ClientApp, without Ray and without network."""

from collections.abc import Iterable
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict, UserConfig
from flwr.clientapp import ClientApp
from flwr.common.constant import SUPERLINK_NODE_ID, ErrorCode
from flwr.proto.node_pb2 import NodeInfo
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity


class InProcessGrid(Grid):
    """Runs a ClientApp for each message as it is pushed, one node after the other."""

    def __init__(
        self,
        app: ClientApp,
        node_configs: list[UserConfig],
        run_config: UserConfig,
        run_id: int = 1,
    ) -> None:
        self._app = app
        self._run = Run.create_empty(run_id=run_id)
        self._contexts = {
            node: Context(self._run.run_id, node, node_config, RecordDict(), run_config)
            for node, node_config in enumerate(node_configs, start=1)
        }
        self._replies: dict[str, Message] = {}
        # Flower's runtime says this of every process that creates messages.
        TaskIdentity.run_id, TaskIdentity.node_id = self._run.run_id, SUPERLINK_NODE_ID
        TaskIdentity.task_id = 0

    def set_run(self, run: Run) -> None:
        """Take another run's description."""
        self._run = run

    @property
    def run(self) -> Run:
        """The run's description."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """As the constructor of ``Message`` does."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """All nodes: none ever leaves."""
        return list(self._contexts)

    def get_nodes(self) -> Iterable[NodeInfo]:
        """All nodes, without registered names."""
        return [NodeInfo(node_id=node) for node in self._contexts]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let the addressed nodes answer, and keep their replies."""
        pushed = []
        for message in messages:
            message_id = str(uuid4())
            message.metadata.__dict__["_message_id"] = message_id
            self._replies[message_id] = self._answer(message)
            pushed.append(message_id)
        return pushed

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Hand the replies over."""
        return [self._replies.pop(key) for key in message_ids if key in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Push, then pull."""
        return self.pull_messages(self.push_messages(messages))

    def _answer(self, message: Message) -> Message:
        try:
            return self._app(message, self._contexts[message.metadata.dst_node_id])
        except Exception as error:  # as Flower's own runtime does: a failing node fails alone
            reason = f"{type(error).__name__}: {error}"
            return Message(
                Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=reason), reply_to=message
            )
