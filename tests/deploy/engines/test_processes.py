"""Marked processes end with the block that started them, and no others."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from deploy.engines.processes import ProcessMark, marked_processes
from tests.harness.processes import kill_process_tree

pytestmark = pytest.mark.slow

# Starts a process that outlives it, in a session of its own and with nothing in its environment.
_PARENT = """
import subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(60)"], env={}, start_new_session=True
)
print(child.pid, flush=True)
time.sleep(60)
"""


def sleeper(environment: dict[str, str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", _PARENT],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_all_marked_end_and_no_other(error: type[BaseException]) -> None:
    other = sleeper({})
    try:
        with pytest.raises(error), marked_processes() as mark:  # noqa: PT012
            marked = sleeper(mark.environment())
            assert marked.stdout
            child = int(marked.stdout.readline())
            assert {process.pid for process in mark.processes()} == {marked.pid, child}
            raise error
        assert not mark.processes()
        assert not is_running(marked.pid)
        assert not is_running(child)
        assert is_running(other.pid)
    finally:
        assert other.stdout
        os.kill(int(other.stdout.readline()), signal.SIGKILL)
        other.kill()
        other.wait()


def test_a_request_to_end_is_heard() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as end, marked_processes():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    assert end.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("again", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_asked_again_it_still_cleans_up(
    again: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = ProcessMark.end

    def interrupted(mark: ProcessMark) -> None:
        os.kill(os.getpid(), again)
        time.sleep(0.1)
        end(mark)

    monkeypatch.setattr(ProcessMark, "end", interrupted)
    with pytest.raises(SystemExit), marked_processes() as mark:  # noqa: PT012
        marked = sleeper(mark.environment())
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)
    assert not is_running(marked.pid)


@pytest.mark.slow
def test_a_family_ends_as_a_whole() -> None:
    with marked_processes() as mark:
        parent = sleeper({})
        other = sleeper(mark.environment())
        assert parent.stdout
        child = int(parent.stdout.readline())
        kill_process_tree(parent)
        assert not is_running(parent.pid)
        assert not is_running(child)
        assert is_running(other.pid)
        kill_process_tree(parent)  # once more does no harm
