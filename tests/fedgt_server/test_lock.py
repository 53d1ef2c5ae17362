"""One coordinator to a run."""

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


def test_a_second_one_is_refused(tmp_path: Path) -> None:
    with run_lock(tmp_path / "first"):
        assert is_locked(tmp_path / "first")
        assert not is_locked(tmp_path / "second")
        with (
            pytest.raises(FedGTError, match="the run 'first' is still running"),
            run_lock(tmp_path / "first"),
        ):
            pass
    assert not is_locked(tmp_path / "first")


def test_asking_makes_nothing(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_process_lets_go(tmp_path: Path) -> None:
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
