"""Messages between ClientApp process and worker; callers and workers that fail first."""

import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedgt_client.worker import transport
from shared.errors import FedGTError
from shared.wire import Instruction, Update


@pytest.fixture
def place() -> Iterator[Path]:
    """Return a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="fedgt-") as folder:
        yield Path(folder) / "socket"


def request(size: int = 3) -> tuple[Message, Context]:
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 0
    arrays = {"head": np.arange(size, dtype=np.float32)}
    message = Message(Instruction(4, arrays).to_records(), 5, MessageType.TRAIN, ttl=20.0)
    message.metadata.__dict__["_message_id"] = "m"
    return message, Context(7, 5, {"institution": "alba"}, RecordDict(), {"rounds": 3})


def echo(message: Message, context: Context) -> Message:
    arrays = Instruction.from_records(message.content).arrays
    return Message(Update("alba", arrays, {"loss": 0.5}).to_records(), reply_to=message)


@pytest.fixture
def serve(place: Path) -> Iterator[Callable[..., grpc.Server]]:
    """Start a server that ends with the test."""
    servers: list[grpc.Server] = []

    def start(handle: Callable[[Message, Context], Message] = echo) -> grpc.Server:
        servers.append(transport.serve(place, handle))
        return servers[-1]

    yield start
    for server in servers:
        server.stop(None).wait()


def wait_forever() -> None:
    """Let the call take as long as it takes."""


def give_up() -> None:
    raise FedGTError("no more time")


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        (2**31).to_bytes(8, "big"),
        (3).to_bytes(8, "big") + b"\xff\xff\xff",
        (0).to_bytes(8, "big") + b"\xff\xff\xff",
    ],
)
def test_a_request_that_is_none(
    place: Path, serve: Callable[..., grpc.Server], garbage: bytes
) -> None:
    serve()
    with grpc.insecure_channel(f"unix:{place}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/fedgt.Worker/Handle")(garbage)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert transport.call(place, *request(), wait_forever).has_content()


def test_nobody_listens(place: Path) -> None:
    with pytest.raises(ConnectionError):
        transport.call(place, *request(), wait_forever)


@pytest.mark.parametrize("first", [b"", b"HTTP/1.1 200 OK\r\n\r\n", b"\xff" * 100])
def test_a_listener_that_hangs_up(place: Path, first: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(first)

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ConnectionError):
            transport.call(place, *request(), wait_forever)
        thread.join()


def test_a_listener_that_says_nothing(place: Path) -> None:
    threads = threading.active_count()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()
        for size in (3, 10**6):
            with pytest.raises(FedGTError, match="no more time"):
                transport.call(place, *request(size), give_up)
    assert threading.active_count() == threads


def test_a_worker_that_ends_at_work(place: Path, serve: Callable[..., grpc.Server]) -> None:
    at_work, end = threading.Event(), threading.Event()

    def hang(message: Message, context: Context) -> Message:
        at_work.set()
        end.wait(60)
        return echo(message, context)

    server = serve(hang)

    def stop_at_work() -> None:
        if at_work.is_set():
            server.stop(None)

    with pytest.raises(ConnectionError):
        transport.call(place, *request(), stop_at_work)
    end.set()


def test_a_worker_that_fails(place: Path, serve: Callable[..., grpc.Server]) -> None:
    def fail(message: Message, context: Context) -> Message:
        raise RuntimeError("out of memory")

    serve(fail)
    with pytest.raises(FedGTError, match=r"worker cannot answer: .*out of memory"):
        transport.call(place, *request(), wait_forever)


def test_a_reply_that_is_none(place: Path) -> None:
    handler = grpc.unary_unary_rpc_method_handler(lambda data, rpc: b"\xff\xff\xff")
    service = grpc.method_handlers_generic_handler("fedgt.Worker", {"Handle": handler})
    server = grpc.server(ThreadPoolExecutor(1), handlers=[service])
    server.add_insecure_port(f"unix:{place}")
    server.start()
    with pytest.raises(FedGTError, match="3 bytes are not a Flower message"):
        transport.call(place, *request(), wait_forever)
    server.stop(None).wait()


def test_callers_that_say_nothing_hold_up_nobody(
    place: Path, serve: Callable[..., grpc.Server]
) -> None:
    serve()
    silent = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    for connection in silent:
        connection.connect(str(place))
    silent[0].sendall(b"PRI * HTTP/2.0\r\n")
    assert transport.call(place, *request(), wait_forever).has_content()
    for connection in silent:
        connection.close()


def test_only_this_user_can_connect(place: Path, serve: Callable[..., grpc.Server]) -> None:
    serve()
    assert place.stat().st_mode & 0o777 == 0o600


def test_all_messages_are_handled_in_one_thread(
    place: Path, serve: Callable[..., grpc.Server]
) -> None:
    """Torch has its number of threads for each of ours."""
    threads: set[int] = set()

    def note(message: Message, context: Context) -> Message:
        threads.add(threading.get_ident())
        return echo(message, context)

    serve(note)
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda _: transport.call(place, *request(), wait_forever), range(8)):
            pass
    assert len(threads) == 1


@pytest.mark.parametrize("size", [0, 3, 3 * 10**6])
@pytest.mark.slow
def test_request_and_reply_come_through(
    place: Path, serve: Callable[..., grpc.Server], size: int
) -> None:
    seen: list[tuple[Message, Context]] = []

    def note(message: Message, context: Context) -> Message:
        seen.append((message, context))
        return echo(message, context)

    serve(note)
    message, context = request(size)
    reply = transport.call(place, message, context, wait_forever)
    ((found, surroundings),) = seen
    assert surroundings == context
    assert found.metadata == message.metadata
    assert Instruction.from_records(found.content).arrays["head"].tolist() == list(range(size))
    assert reply.metadata.reply_to_message_id == "m"
    update = Update.from_records(reply.content)
    assert update.metrics == {"loss": 0.5}
    assert update.arrays["head"].tolist() == list(range(size))
