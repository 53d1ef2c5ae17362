"""The internals of Flower that client and server need: no other module of theirs imports any."""

from functools import partial
from importlib import import_module

from flwr.app import Context, Error, Message, MessageType, RecordDict
from flwr.common.constant import ErrorCode
from flwr.common.serde import (
    context_from_proto,
    context_to_proto,
    message_from_proto,
    message_to_proto,
)
from flwr.proto.message_pb2 import Context as ContextProto
from flwr.proto.message_pb2 import Message as MessageProto
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import pull_objects
from google.protobuf.message import DecodeError

from shared.errors import FedGTError


def message_to_bytes(message: Message) -> bytes:
    """Serialise a message as Flower's protobuf."""
    return bytes(message_to_proto(message).SerializeToString())


def message_from_bytes(data: bytes) -> Message:
    """Parse ``message_to_bytes``; bytes of anything else are a ``FedGTError``."""
    try:
        return message_from_proto(MessageProto.FromString(data))
    except (DecodeError, ValueError, TypeError, KeyError) as error:
        raise FedGTError(f"{len(data)} bytes are not a Flower message ({error})") from None


def context_to_bytes(context: Context) -> bytes:
    """Serialise a context as Flower's protobuf."""
    return bytes(context_to_proto(context).SerializeToString())


def context_from_bytes(data: bytes) -> Context:
    """Parse ``context_to_bytes``; bytes of anything else are a ``FedGTError``."""
    try:
        return context_from_proto(ContextProto.FromString(data))
    except (DecodeError, ValueError, TypeError, KeyError) as error:
        raise FedGTError(f"{len(data)} bytes are not a Flower context ({error})") from None


def error_reply(message: Message, reason: str) -> Message:
    """Answer ``message`` with the reason why it cannot be answered otherwise."""
    error = Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=reason)
    return Message(error, reply_to=message)


def error_reply_to(message_id: str, node: int, reason: str) -> Message:
    """Return the answer of a node to a message that is not at hand any more: an error."""
    asked = Message(RecordDict(), node, MessageType.TRAIN)
    asked.metadata.__dict__["_message_id"] = message_id
    return error_reply(asked, reason)


def is_connection_error(error: Exception) -> bool:
    """Return whether Flower could not be reached, rather than not read a reply."""
    import httpx  # not needed by clients

    return isinstance(error, OSError | httpx.HTTPError)


def limit_pulling(seconds: float) -> None:
    """Wait at most so long for what a reply has announced; Flower itself waits for up to hours."""
    http_grid = import_module("flwr.superlink.grid.http_grid")  # not of clients, slow to import
    http_grid.pull_objects = partial(pull_objects, max_time=seconds)  # type: ignore[attr-defined]


def is_app_error(error: Error) -> bool:
    """Return whether an institution's app failed, which it will do again until it is repaired."""
    return error.code in (
        ErrorCode.CLIENT_APP_RAISED_EXCEPTION,
        ErrorCode.LOAD_CLIENT_APP_EXCEPTION,
        ErrorCode.INVALID_FAB,  # the institution did not approve the code
    )


def is_simulated(grid: Grid) -> bool:
    """Return whether ``grid`` belongs to Flower's simulation, which shares a process with it."""
    from flwr.superlink.grid import InMemoryGrid  # not needed by clients, and slow to import

    return isinstance(grid, InMemoryGrid)
