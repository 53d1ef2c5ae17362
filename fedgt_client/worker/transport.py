"""Messages between Flower's ClientApp process and the worker: gRPC over a Unix socket.

A request is Flower's own protobuf of the message, after its length in eight bytes, then of the
context; a reply is that of the message.
"""

import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
from flwr.app import Context, Message

from shared.errors import FedGTError
from shared.flower import (
    context_from_bytes,
    context_to_bytes,
    message_from_bytes,
    message_to_bytes,
)

# Called several times a second while nothing moves; it raises where waiting is of no more use.
# Python handles signals between two waits, and Flower's own are raised in another thread.
Check = Callable[[], None]

_SERVICE, _METHOD = "fedgt.Worker", "Handle"
_LENGTH = struct.Struct(">Q")
_WAIT = 0.25  # seconds between two checks
# Messages as large as protobuf can have them: 2 GB.
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
# Only the caller knows how long a worker that does not answer may be busy: no limit of gRPC's own
# for the connection either, in milliseconds.
_CALLER_OPTIONS = [
    *_OPTIONS,
    ("grpc.min_reconnect_backoff_ms", 2**31 - 1),
    # A new worker must not be taken for the one that failed at the same socket.
    ("grpc.use_local_subchannel_pool", 1),
]
_HUNG_UP = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


def call(socket: Path, message: Message, context: Context, check: Check) -> Message:
    """Let the worker that listens at ``socket`` answer a message.

    Raises
    ------
    ConnectionError
        Where the worker ends without a reply.
    """
    data = message_to_bytes(message)
    request = b"".join((_LENGTH.pack(len(data)), data, context_to_bytes(context)))
    with grpc.insecure_channel(f"unix:{socket}", _CALLER_OPTIONS) as channel:
        reply = channel.unary_unary(f"/{_SERVICE}/{_METHOD}").future(request)
        while True:
            try:
                return message_from_bytes(reply.result(timeout=_WAIT))
            except grpc.FutureTimeoutError:
                check()
            except grpc.RpcError as error:
                if error.code() in _HUNG_UP:
                    raise ConnectionResetError(error.details()) from None
                raise FedGTError(f"the worker cannot answer: {error.details()}") from None


def serve(socket: Path, handle: Callable[[Message, Context], Message]) -> grpc.Server:
    """Answer at ``socket`` with what ``handle`` returns, for as long as the server is kept.

    ``handle`` is always called in the same thread: torch has its number of threads for each of
    ours. gRPC has received a request before it gets there, so no slow caller holds up others.
    """

    def answer(request: bytes, rpc: grpc.ServicerContext) -> bytes:
        try:
            message, context = _parse(request)
        except FedGTError as error:
            rpc.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return message_to_bytes(handle(message, context))

    handler = grpc.unary_unary_rpc_method_handler(answer)
    service = grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler})
    server = grpc.server(ThreadPoolExecutor(1), handlers=[service], options=_OPTIONS)
    server.add_insecure_port(f"unix:{socket}")
    socket.chmod(0o600)
    server.start()
    return server


def _parse(request: bytes) -> tuple[Message, Context]:
    if len(request) < _LENGTH.size:
        raise FedGTError(f"{len(request)} bytes are not a request")
    (length,) = _LENGTH.unpack_from(request)
    end = _LENGTH.size + length
    return message_from_bytes(request[_LENGTH.size : end]), context_from_bytes(request[end:])
