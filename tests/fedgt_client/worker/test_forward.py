"""Messages to workers that die, hang, or must not be started."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from flwr.app import MessageType

from deploy.engines.processes import ProcessMark
from fedgt_client import app as client_app
from fedgt_client.worker.forward import Forwarder
from fedgt_client.worker.supernode import Supernode
from shared.wire import Instruction, Question, Update
from tests.fedgt_client.workers import Institution, is_running, wait_for_end, wait_until
from tests.harness.policies import ANYTHING_GOES

pytestmark = pytest.mark.slow

_ROOT = Path(__file__).parents[3]

# Stands for flower-supernode; SIGINT may be ignored in whatever shell the tests run.
_SUPERNODE = """
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
print("ready", flush=True)
while True:
    signal.pause()
"""

# Stands for flower-superexec, which starts a process for each message.
_EXECUTOR = """
import os, signal, subprocess, sys
code, place = sys.argv[1:3]
subprocess.Popen([sys.executable, "-c", code, place, "--parent-pid", str(os.getpid())])
while True:
    signal.pause()
"""

# Stands for flwr-clientapp: it loads the app, and later calls it with the message.
_CLIENTAPP = """
import json, sys, time
from pathlib import Path
from tests.fedgt_client.workers import Institution
from shared.wire import Question
here = Path(sys.argv[1])
alba = Institution(here / "data", here / "state")
(here / "loaded").touch()
while not (here / "go").exists():
    time.sleep(0.05)
reply = alba.send("query", Question().to_records())
(here / "part").write_text(json.dumps(reply.error.reason))
(here / "part").rename(here / "said")
"""


class Site:
    """Flower's processes at an institution.

    It has no torch, which takes seconds and does not matter here: its worker says so.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._paths = os.pathsep.join((str(place / "without"), str(_ROOT)))
        (place / "without").mkdir()
        (place / "without" / "torch.py").write_text("raise ImportError('no torch')\n")
        self.supernode = self._start(_SUPERNODE)
        assert self.supernode.stdout is not None
        assert self.supernode.stdout.readline() == "ready\n"
        # Flower tells its child so whose end to wait for.
        parent = ("--parent-pid", str(self.supernode.pid))
        self.executor = self._start(_EXECUTOR, _CLIENTAPP, str(place), *parent)
        wait_until((place / "loaded").exists, "the app is loaded")

    def _start(self, code: str, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env=os.environ | {"PYTHONPATH": self._paths},
            stdout=subprocess.PIPE if code == _SUPERNODE else None,
            text=True,
        )

    def deliver(self) -> str:
        """Give the app its message; return the reason it replies with."""
        (self._place / "go").touch()
        wait_until((self._place / "said").exists, "the app has answered")
        return str(json.loads((self._place / "said").read_text()))


def test_a_worker_killed_between_rounds(tmp_path: Path, alba: Institution) -> None:
    here = Institution(tmp_path / "data", tmp_path / "here", worker=False)
    start = here.introduce().initial
    alba.play(1, start)
    os.kill(alba.worker(), signal.SIGKILL)
    second = alba.play(2, start)
    pid = alba.worker()
    here.play(1, start)
    expected = here.play(2, start)
    for name, array in expected.arrays.items():
        assert second.arrays[name].tobytes() == array.tobytes()

    # It had saved the round, but the answer was lost: repeated, it gives the same.
    os.kill(pid, signal.SIGKILL)
    again = alba.play(2, start)
    assert alba.worker() != pid
    for name, array in expected.arrays.items():
        assert again.arrays[name].tobytes() == array.tobytes()
    assert alba.rounds_on_disk() == here.rounds_on_disk()


def test_a_worker_killed_with_a_message(
    alba: Institution, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = alba.introduce().initial
    pid = alba.worker()
    os.kill(pid, signal.SIGSTOP)
    waiting = threading.Event()

    class Watched(Supernode):
        """Notes that it is asked for, as it is while a reply is awaited."""

        def is_gone(self) -> bool:
            waiting.set()
            return super().is_gone()

    monkeypatch.setattr(client_app, "forwarder", Forwarder(Watched([os.getpid()])))
    updates: list[Update] = []
    thread = threading.Thread(target=lambda: updates.append(alba.play(1, start)))
    thread.start()
    assert waiting.wait(60)
    os.kill(pid, signal.SIGKILL)
    thread.join(120)
    assert f"worker {pid} ended without an answer" in caplog.text
    assert [update.institution for update in updates] == ["alba"]
    assert alba.worker() != pid


def test_a_worker_that_dies_of_every_message(
    alba: Institution, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Out of memory, for instance; here it is killed as it imports torch."""
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "torch.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    monkeypatch.setattr(sys, "path", [str(broken), *sys.path])
    reply = alba.send(MessageType.QUERY, Question().to_records())
    assert "ended twice without an answer" in (reply.error.reason or "")


def limit(alba: Institution, **limits: float) -> None:
    """Let the institution's policy say how much a run may take."""
    policy = ANYTHING_GOES.model_copy(update=limits)
    alba.node = alba.node.model_copy(update={"policy": policy})


def test_a_round_that_takes_longer_than_the_institution_allows(alba: Institution) -> None:
    """Whatever the run's own deadline is."""
    start = alba.introduce().initial
    pid = alba.worker()
    os.kill(pid, signal.SIGSTOP)
    limit(alba, max_round_seconds=3.0)
    reply = alba.send(MessageType.TRAIN, Instruction(1, start).to_records(), round_deadline=600.0)
    assert "did not answer within 3 s" in (reply.error.reason or "")
    wait_for_end(pid)


def test_more_memory_than_the_institution_allows(alba: Institution) -> None:
    limit(alba, max_memory_mb=50)  # torch alone takes more
    reply = alba.send(MessageType.QUERY, Question().to_records())
    assert "allowed: at most 50 ([policy] max-memory-mb)" in (reply.error.reason or "")
    limit(alba, max_memory_mb=4096)
    assert not alba.send(MessageType.QUERY, Question().to_records()).has_error()


def test_a_hung_worker(alba: Institution) -> None:
    start = alba.introduce().initial
    pid = alba.worker()
    os.kill(pid, signal.SIGSTOP)
    # A question does not end it: it might be preparing its graph.
    reply = alba.send(MessageType.QUERY, Question().to_records(), round_deadline=3.0)
    assert "did not answer within 3 s" in (reply.error.reason or "")
    assert alba.worker() == pid
    # A round does, at its deadline.
    instruction = Instruction(1, start).to_records()
    reply = alba.send(MessageType.TRAIN, instruction, round_deadline=3.0)
    assert "did not answer within 3 s" in (reply.error.reason or "")
    wait_for_end(pid)
    alba.play(1, start)
    assert alba.worker() != pid


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"])
def test_the_worker_ends_with_its_supernode(tmp_path: Path, alba: Institution, number: str) -> None:
    site = Site(tmp_path)
    assert site.deliver() == "this institution's app failed (ImportError): its log says why"
    pid = alba.worker()
    assert is_running(pid)
    # Flower's executor may linger: it retries what it was doing.
    site.supernode.send_signal(signal.Signals[number])
    wait_for_end(pid)
    assert is_running(site.executor.pid)


def test_the_worker_ends_with_its_executor(tmp_path: Path, alba: Institution) -> None:
    site = Site(tmp_path)
    assert site.deliver() == "this institution's app failed (ImportError): its log says why"
    pid = alba.worker()
    site.executor.kill()
    wait_for_end(pid)
    assert site.supernode.poll() is None


@pytest.mark.parametrize("gone", ["supernode", "executor"])
def test_no_worker_without_a_supernode(
    tmp_path: Path, alba: Institution, workers: ProcessMark, gone: str
) -> None:
    """A process that has got its message, and outlives those who sent it."""
    site = Site(tmp_path)
    process = site.supernode if gone == "supernode" else site.executor
    process.kill()
    process.wait()
    assert "supernode has ended" in site.deliver()
    assert alba.pid is None
    assert not [p for p in workers.processes() if "fedgt_client.worker" in p.cmdline()]


def test_waiting_ends_with_the_supernode(
    alba: Institution, monkeypatch: pytest.MonkeyPatch
) -> None:
    alba.introduce()
    os.kill(alba.worker(), signal.SIGSTOP)
    passing = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1)"])
    monkeypatch.setattr(client_app, "forwarder", Forwarder(Supernode([passing.pid])))
    reply = alba.send(MessageType.QUERY, Question().to_records())
    passing.wait()
    assert "supernode has ended" in (reply.error.reason or "")
