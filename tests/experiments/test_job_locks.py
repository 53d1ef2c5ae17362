"""Job locks: one holder at a time, also across processes."""

import os
import subprocess
import sys
from pathlib import Path

from experiments.job_locks import JobLock
from tests.experiments.jobs import statistics_of


def test_only_one_may_have_it(tmp_path: Path) -> None:
    lock = JobLock.acquire(tmp_path, statistics_of())
    assert lock is not None
    assert JobLock.acquire(tmp_path, statistics_of()) is None
    other = JobLock.acquire(tmp_path, statistics_of(seed=1))
    assert other is not None
    lock.release()
    again = JobLock.acquire(tmp_path, statistics_of())
    assert again is not None
    again.release()
    other.release()
    assert not list((tmp_path / ".locks").iterdir())


def test_a_process_that_inherits_it_holds_it(tmp_path: Path) -> None:
    lock = JobLock.acquire(tmp_path, statistics_of())
    assert lock is not None
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock.handle,)
    )
    try:
        os.close(lock.handle)  # as when the scheduler is killed
        assert JobLock.acquire(tmp_path, statistics_of()) is None
    finally:
        child.communicate(b"\n")
    again = JobLock.acquire(tmp_path, statistics_of())
    assert again is not None
    again.release()


def test_a_lock_file_left_behind_locks_nothing(tmp_path: Path) -> None:
    left = tmp_path / ".locks" / "consortium_disjoint-3_statistics-0.lock"
    left.parent.mkdir()
    left.touch()
    lock = JobLock.acquire(tmp_path, statistics_of())
    assert lock is not None
    lock.release()
