"""Claims: one holder at a time, also across processes."""

import os
import subprocess
import sys
from pathlib import Path

from experiments.job_locks import Claim
from tests.experiments.jobs import statistics_of


def test_only_one_may_have_it(tmp_path: Path) -> None:
    claim = Claim.take(tmp_path, statistics_of())
    assert claim is not None
    assert Claim.take(tmp_path, statistics_of()) is None
    other = Claim.take(tmp_path, statistics_of(seed=1))
    assert other is not None
    claim.release()
    again = Claim.take(tmp_path, statistics_of())
    assert again is not None
    again.release()
    other.release()
    assert not list((tmp_path / ".claims").iterdir())


def test_a_process_that_inherits_it_holds_it(tmp_path: Path) -> None:
    claim = Claim.take(tmp_path, statistics_of())
    assert claim is not None
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(claim.handle,)
    )
    try:
        os.close(claim.handle)  # as when the scheduler is killed
        assert Claim.take(tmp_path, statistics_of()) is None
    finally:
        child.communicate(b"\n")
    again = Claim.take(tmp_path, statistics_of())
    assert again is not None
    again.release()


def test_a_lock_file_left_behind_is_no_claim(tmp_path: Path) -> None:
    left = tmp_path / ".claims" / "consortium_disjoint-3_statistics-0.lock"
    left.parent.mkdir()
    left.touch()
    claim = Claim.take(tmp_path, statistics_of())
    assert claim is not None
    claim.release()
