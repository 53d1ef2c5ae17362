"""The worker as a real process: one for a run, and why it ends."""

import os
import signal
import socket
import stat
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from flwr.app import MessageType, RecordDict

from deploy.engines.processes import ProcessMark
from shared.wire import Instruction, Question
from tests.fedgt_client.workers import Institution, is_running, wait_for_end, wait_until

pytestmark = pytest.mark.slow


def test_one_worker_for_a_run(tmp_path: Path, alba: Institution, workers: ProcessMark) -> None:
    assert alba.pid is None
    start = alba.introduce().initial
    pid = alba.worker()
    assert stat.S_IMODE(alba.directory.socket.stat().st_mode) == 0o600
    for folder in (alba.directory.path, alba.directory.path.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    # Of its own it has the code of this process, and none of its other open files.
    process = psutil.Process(pid)
    assert os.getsid(pid) == pid
    with (tmp_path / "open").open("w"):
        mine = {file.path for file in psutil.Process().open_files()}
        theirs = {file.path for file in process.open_files()}
        assert str(tmp_path / "open") in mine
        assert str(tmp_path / "open") not in theirs

    update = alba.play(1, start)
    assert alba.worker() == pid
    assert [found.pid for found in workers.processes()] == [pid]
    # It does what this process would do.
    here = Institution(tmp_path / "data", tmp_path / "here", worker=False)
    expected = here.play(1, here.introduce().initial)
    assert update.arrays.keys() == expected.arrays.keys()
    for name, array in expected.arrays.items():
        assert update.arrays[name].tobytes() == array.tobytes()
    assert alba.rounds_on_disk() == here.rounds_on_disk()

    reply = alba.send(MessageType.TRAIN, Instruction(2, {}, finish=True).to_records())
    assert not reply.has_error()
    wait_until(lambda: alba.pid is None, "it has ended")


def test_errors_are_reported_and_the_worker_goes_on(tmp_path: Path, alba: Institution) -> None:
    poor = Institution(tmp_path / "nowhere", tmp_path / "state")
    reply = poor.send(MessageType.QUERY, Question().to_records())
    assert "(a path) holds no graph" in (reply.error.reason or "")

    alba.introduce()
    pid = alba.worker()
    reply = alba.send(MessageType.TRAIN, RecordDict())
    assert "another version of FedGT" in (reply.error.reason or "")

    for garbage in (
        b"",
        b"short",
        b"GET / HTTP/1.1\r\nHost: alba\r\n\r\n",
        bytes(16),
        bytes(7) + b"\3abc",
    ):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(alba.directory.socket))
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(60)
            # It closes the connection, or answers with an error; either way it goes on.
            with suppress(ConnectionError):
                connection.recv(1)
    # A connection that stays silent delays nobody.
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(alba.directory.socket))
        alba.introduce()
    assert alba.worker() == pid


def test_two_messages_at_once_start_one_worker(alba: Institution, workers: ProcessMark) -> None:
    answers: list[str] = []
    # Flower's runtime says once for a process which run it is in; so does the first of these.
    threads = [
        threading.Thread(target=lambda: answers.append(alba.introduce().institution))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert answers == ["alba", "alba"]
    assert [found.pid for found in workers.processes()] == [alba.worker()]


def test_idle(alba: Institution) -> None:
    alba.node = alba.node.model_copy(update={"worker_idle": 5.0})
    alba.introduce()
    wait_until(lambda: alba.pid is None, "it has ended")


def test_another_run_ends_the_worker(tmp_path: Path, alba: Institution) -> None:
    alba.introduce()
    old = alba.worker()
    another = Institution(tmp_path / "data", tmp_path / "state", run_id=2)
    another.introduce()
    assert another.worker() != old
    assert not is_running(old)


def test_a_worker_that_cannot_be_found_ends(alba: Institution) -> None:
    alba.introduce()
    pid = alba.worker()
    alba.directory.socket.unlink()
    wait_for_end(pid)


def test_a_worker_can_be_asked_to_end(alba: Institution) -> None:
    alba.introduce()
    os.kill(alba.worker(), signal.SIGTERM)
    wait_until(lambda: alba.pid is None, "it has ended")
