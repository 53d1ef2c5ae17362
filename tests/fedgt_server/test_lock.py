"""The lock on a run's folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedgt_server.lock import is_locked, run_lock
from shared.errors import FedGTError

_HOLD = """
import sys, time
from pathlib import Path
from fedgt_server.lock import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_coordinator_is_refused(tmp_path: Path) -> None:
    with run_lock(tmp_path / "first"):
        assert is_locked(tmp_path / "first")
        assert not is_locked(tmp_path / "second")
        with (
            pytest.raises(FedGTError, match="the run 'first' is still running"),
            run_lock(tmp_path / "first"),
        ):
            pass
    assert not is_locked(tmp_path / "first")


def test_is_locked_creates_nothing(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_frees_the_lock(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_locked(tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    with run_lock(tmp_path):
        pass


def test_a_child_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    with run_lock(tmp_path):
        child = subprocess.Popen(
            [sys.executable, "-c", "print('started', flush=True); input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            close_fds=False,
        )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"started\n"
        assert not is_locked(tmp_path)
    finally:
        child.kill()
        child.communicate()


def test_is_locked_works_where_nothing_can_be_written(tmp_path: Path) -> None:
    with run_lock(tmp_path):
        (tmp_path / "lock").chmod(0o444)
        tmp_path.chmod(0o555)
        try:
            assert is_locked(tmp_path)
        finally:
            tmp_path.chmod(0o755)
