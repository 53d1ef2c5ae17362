"""What ClientApp process and worker say to each other over a Unix socket.

Each part of a request (message, context) or of a reply (message) is Flower's own protobuf, after
its length in eight bytes.
"""

import socket
import struct
from collections.abc import Callable

from flwr.app import Context, Message
from flwr.common.serde import (
    context_from_proto,
    context_to_proto,
    message_from_proto,
    message_to_proto,
)
from flwr.proto.message_pb2 import Context as ContextProto
from flwr.proto.message_pb2 import Message as MessageProto
from google.protobuf.message import DecodeError

from shared.errors import FedGTError

# Called several times a second while nothing moves; it raises where waiting is of no more use.
# Python handles signals between two waits, and Flower's own are raised in another thread.
Check = Callable[[], None]

_LENGTH = struct.Struct(">Q")
_LONGEST = 2**31 - 1  # bytes; protobuf has no longer messages
_CHUNK = 2**20  # bytes
_WAIT = 0.25  # seconds between two checks


def send_request(line: socket.socket, message: Message, context: Context, check: Check) -> None:
    """Ask the worker."""
    _send(line, message_to_proto(message).SerializeToString(), check)
    _send(line, context_to_proto(context).SerializeToString(), check)


def receive_request(line: socket.socket, check: Check) -> tuple[Message, Context]:
    """What the worker is asked."""
    parts = _receive(line, check), _receive(line, check)
    try:
        return (
            message_from_proto(MessageProto.FromString(parts[0])),
            context_from_proto(ContextProto.FromString(parts[1])),
        )
    except (DecodeError, ValueError, TypeError, KeyError) as error:
        raise FedGTError(f"what came is no request ({error})") from None


def send_reply(line: socket.socket, reply: Message, check: Check) -> None:
    """Answer."""
    _send(line, message_to_proto(reply).SerializeToString(), check)


def receive_reply(line: socket.socket, check: Check) -> Message:
    """The worker's answer.

    Raises
    ------
    ConnectionError
        Where the worker ends without one.
    """
    part = _receive(line, check)
    try:
        return message_from_proto(MessageProto.FromString(part))
    except (DecodeError, ValueError, TypeError, KeyError) as error:
        raise FedGTError(f"the worker's answer cannot be read ({error})") from None


def _send(line: socket.socket, part: bytes, check: Check) -> None:
    line.settimeout(_WAIT)
    for piece in (_LENGTH.pack(len(part)), part):
        rest = memoryview(piece)
        while rest:
            try:
                rest = rest[line.send(rest[:_CHUNK]) :]
            except TimeoutError:
                check()


def _receive(line: socket.socket, check: Check) -> bytes:
    line.settimeout(_WAIT)
    (length,) = _LENGTH.unpack(_receive_exactly(line, _LENGTH.size, check))
    if length > _LONGEST:
        raise FedGTError(f"a message of {length} bytes is announced, more than there can be")
    return _receive_exactly(line, length, check)


def _receive_exactly(line: socket.socket, length: int, check: Check) -> bytes:
    """Memory is taken as bytes come, not as they are announced."""
    found = bytearray()
    while len(found) < length:
        try:
            piece = line.recv(min(length - len(found), _CHUNK))
        except TimeoutError:
            check()
            continue
        if not piece:
            raise ConnectionResetError("the other side has hung up")
        found += piece
    return bytes(found)
