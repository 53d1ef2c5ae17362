"""A Flower grid in one process: the same Strategy and ClientApp, without Ray or network."""

from collections.abc import Iterable

from flwr.app import Context, Message, RecordDict, UserConfig
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from deploy.flower import NodeInfo, Run
from deploy.flower.messages import assign_message_id, identify_as_superlink
from shared.flower import error_reply


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
        identify_as_superlink(run_id)

    def set_run(self, run: Run) -> None:
        """Replace the run's description."""
        self._run = run

    @property
    def run(self) -> Run:
        """Return the run's description."""
        return self._run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """Create a message to a node."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def get_node_ids(self) -> Iterable[int]:
        """Return all nodes; none ever leaves."""
        return list(self._contexts)

    def get_nodes(self) -> Iterable[NodeInfo]:
        """Return all nodes, without registered names."""
        return [NodeInfo(node_id=node) for node in self._contexts]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Run the ClientApp of every addressed node, and keep the replies."""
        pushed = []
        for message in messages:
            message_id = assign_message_id(message)
            self._replies[message_id] = self._answer(message)
            pushed.append(message_id)
        return pushed

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the kept replies to these messages."""
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
            return error_reply(message, f"{type(error).__name__}: {error}")
