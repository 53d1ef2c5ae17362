"""Messages made in this process."""

from uuid import uuid4

from flwr.app import Message
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.supercore.task_identity import TaskIdentity


def identify_as_superlink(run_id: int) -> None:
    """Set the identity that Flower's runtime gives to every process that creates messages."""
    TaskIdentity.run_id, TaskIdentity.node_id = run_id, SUPERLINK_NODE_ID
    TaskIdentity.task_id = 0


def assign_message_id(message: Message) -> str:
    """Give a message the random id that the SuperLink would give it, and return it."""
    message_id = str(uuid4())
    message.metadata.__dict__["_message_id"] = message_id
    return message_id
