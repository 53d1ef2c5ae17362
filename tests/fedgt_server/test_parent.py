"""A ServerApp ends with the process that started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

_CHILD = """
import signal, time
import fedgt_server.parent as parent
signal.signal(signal.SIGINT, signal.SIG_IGN)
parent._POLL = parent._GRACE = 0.1
parent.end_with_parent()
print("watching", flush=True)
time.sleep(600)
"""

_PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_however_the_parent_ends(how: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, _CHILD],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    try:
        assert parent.stdout.readline() == b"watching\n"
        time.sleep(0.5)
        assert child.is_running()
        os.kill(parent.pid, how)
        parent.wait(30)
        psutil.wait_procs([child], timeout=30)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    finally:
        parent.kill()
        if child.is_running():
            child.kill()
        parent.communicate()


@pytest.mark.slow
def test_a_superexec_whose_parent_has_ended_before_it_began(tmp_path: Path) -> None:
    """With SIGINT ignored, as a shell starts what runs in the background."""
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    secret = tmp_path / "secret"
    secret.write_bytes(b"5" * 32)
    options = [
        *("--runtime-api-address", "127.0.0.1:9", "--parent-pid", str(gone.pid), "--insecure"),
        *("--superexec-auth-secret-file", str(secret), "--app", "clientapp"),
    ]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "deploy.cli.superexec", *options],
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.wait(120) is not None
    finally:
        process.kill()
