"""What goes over the line, torn and foreign bytes first."""

import socket
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from fedgt_client.worker import transport
from shared.errors import FedGTError
from shared.wire import Instruction, Update

Lines = tuple[socket.socket, socket.socket]


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Two ends of a line."""
    near, far = socket.socketpair()
    with near, far:
        yield near, far


def request(size: int = 3) -> tuple[Message, Context]:
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 7, 1, 0
    arrays = {"head": np.arange(size, dtype=np.float32)}
    message = Message(Instruction(4, arrays).to_records(), 5, MessageType.TRAIN, ttl=20.0)
    message.metadata.__dict__["_message_id"] = "m"
    return message, Context(7, 5, {"institution": "alba"}, RecordDict(), {"rounds": 3})


def patient() -> None:
    """Waits for ever."""


def give_up() -> None:
    raise FedGTError("no more time")


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        (2**31).to_bytes(8, "big"),
        (3).to_bytes(8, "big") + b"\xff\xff\xff" + (0).to_bytes(8, "big"),
    ],
)
def test_garbage(lines: Lines, garbage: bytes) -> None:
    near, far = lines
    near.sendall(garbage)
    near.close()
    with pytest.raises(FedGTError, match=r"no request|more than there can be"):
        transport.receive_request(far, patient)


@pytest.mark.parametrize("kept", [0, 3, 8, 20])
def test_torn(lines: Lines, kept: int) -> None:
    near, far = lines
    transport.send_request(near, *request(), patient)
    near.sendall(far.recv(2**16)[:kept])
    near.close()
    with pytest.raises(ConnectionError):
        transport.receive_request(far, patient)


def test_nobody_speaks(lines: Lines) -> None:
    with pytest.raises(FedGTError, match="no more time"):
        transport.receive_reply(lines[0], give_up)


def test_nobody_listens(lines: Lines) -> None:
    with pytest.raises(FedGTError, match="no more time"):
        transport.send_request(lines[0], *request(10**6), give_up)
    lines[1].close()
    with pytest.raises(ConnectionError):
        transport.send_request(lines[0], *request(), patient)


def test_an_answer_that_is_none(lines: Lines) -> None:
    near, far = lines
    near.sendall((3).to_bytes(8, "big") + b"\xff\xff\xff")
    with pytest.raises(FedGTError, match="answer cannot be read"):
        transport.receive_reply(far, patient)


@pytest.mark.parametrize("size", [0, 3, 10**6])
def test_request_and_reply_come_through(lines: Lines, size: int) -> None:
    near, far = lines
    message, context = request(size)
    sender = threading.Thread(target=transport.send_request, args=(near, message, context, patient))
    sender.start()
    found, surroundings = transport.receive_request(far, patient)
    sender.join()
    assert surroundings == context
    assert found.metadata == message.metadata
    arrays = Instruction.from_records(found.content).arrays
    assert arrays["head"].tolist() == list(range(size))

    reply = Message(Update("alba", arrays, {"loss": 0.5}).to_records(), reply_to=found)
    sender = threading.Thread(target=transport.send_reply, args=(far, reply, patient))
    sender.start()
    answer = transport.receive_reply(near, patient)
    sender.join()
    assert answer.metadata.reply_to_message_id == "m"
    assert Update.from_records(answer.content).metrics == {"loss": 0.5}
