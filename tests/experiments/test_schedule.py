"""The scheduler: failures, what is finished, locks, interruption; then real runs."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from experiments import schedule
from experiments.job import Job
from experiments.job_locks import JobLock
from experiments.records import finished, record_path, write_record
from experiments.schedule import State, do_all, unfinished
from tests.experiments.jobs import small_run, statistics_of

ROOT = Path(__file__).parents[2]
TIMEOUT = 300.0  # seconds, on a machine that has other things to do


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an own cache, and an own place for scratch folders."""
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(schedule, "_scratch_root", lambda: scratch)
    return scratch


def done(jobs: list[Job], results: Path, parallel: int = 2) -> tuple[State, list[str]]:
    lines: list[str] = []
    state = do_all(
        jobs,
        results,
        parallel=parallel,
        observe=lambda _, line: lines.append(line) if line else None,
    )
    return state, lines


@pytest.mark.slow
def test_a_failing_job_is_named_and_the_others_go_on(tmp_path: Path, surroundings: Path) -> None:
    bad = Job("consortium", "overlap", 7, kind="statistics")
    state, lines = done([bad, statistics_of()], tmp_path, parallel=1)
    assert state.failed.keys() == {bad.name}
    assert "clients is 7, expected a multiple of 5" in state.failed[bad.name]
    assert lines[0] == f"{bad.name} failed: {state.failed[bad.name]}"
    assert state.done == [statistics_of()]
    assert not record_path(tmp_path, bad).exists()
    assert not list(surroundings.iterdir())
    assert not list((tmp_path / ".locks").iterdir())


@pytest.mark.slow
def test_a_kind_that_there_is_not(tmp_path: Path) -> None:
    state, _ = done([Job("consortium", "disjoint", 3, kind="dance")], tmp_path)
    assert "kind is 'dance', expected one of run" in next(iter(state.failed.values()))


def test_what_is_finished_is_not_done_again(tmp_path: Path) -> None:
    write_record(tmp_path, statistics_of(), {"seconds": 0.0})
    before = record_path(tmp_path, statistics_of()).read_bytes()
    assert unfinished([statistics_of(), statistics_of(1), statistics_of(1)], tmp_path) == [
        statistics_of(1)
    ]
    # Also where another scheduler finished it after this one had looked.
    state, _ = done([statistics_of()], tmp_path)
    assert state.done == [statistics_of()]
    assert record_path(tmp_path, statistics_of()).read_bytes() == before


def test_cheap_ones_first(tmp_path: Path) -> None:
    dear, cheap = Job.of("pubmed", "disjoint", 10, "fedgt", 0), small_run()
    assert unfinished([dear, cheap, statistics_of()], tmp_path) == [statistics_of(), cheap, dear]


@pytest.mark.slow
@pytest.mark.parametrize("succeeds", [True, False])
def test_what_another_scheduler_does_is_waited_for(succeeds: bool, tmp_path: Path) -> None:
    lock = JobLock.acquire(tmp_path, statistics_of())
    assert lock is not None

    def end() -> None:
        if succeeds:
            write_record(tmp_path, statistics_of(), {"seconds": 0.0})
        lock.release()

    timer = threading.Timer(1.0, end)
    timer.start()
    state, lines = done([statistics_of()], tmp_path)
    assert state.done == [statistics_of()]
    name = statistics_of().name
    assert lines[0] == f"{name} is under way elsewhere: waiting for it"
    assert len(lines) == 2
    # What comes to nothing there is done here.
    assert (lines[1] == f"{name}: finished elsewhere") == succeeds
    assert not list((tmp_path / ".locks").iterdir())


@pytest.mark.slow
def test_a_run_takes_the_scheduler_s_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "experiments"
    other.mkdir()
    (other / "__init__.py").write_text("raise SystemExit('another experiments')")
    monkeypatch.chdir(tmp_path)
    state, _ = done([statistics_of()], tmp_path)
    assert not state.failed


@pytest.mark.slow
def test_several_at_a_time(tmp_path: Path) -> None:
    jobs = [statistics_of(seed) for seed in range(3)]
    state, lines = done(jobs, tmp_path)
    assert set(state.done) == set(jobs)
    assert len(lines) == 3
    assert state.seconds_left == 0.0
    record = finished(tmp_path, jobs[0])
    assert record is not None
    assert len(record["nodes"]) == 3
    assert record["code"]["version"]


def test_time_left_is_a_matter_of_cost() -> None:
    state = State(total=2, cost=10.0, started=time.monotonic() - 8.0)
    assert state.seconds_left is None
    state.done_cost, state.under_way = 3.0, 1.0
    assert state.seconds_left == pytest.approx(12.0, rel=0.2)


def strings(document: object) -> list[str]:
    if isinstance(document, dict):
        return [text for item in document.items() for text in strings(item)]
    if isinstance(document, list | tuple):
        return [text for item in document for text in strings(item)]
    return [document] if isinstance(document, str) else []


@pytest.mark.slow
def test_a_run_s_record(tmp_path: Path, surroundings: Path) -> None:
    job = small_run()
    state, lines = done([job], tmp_path / "results")
    assert not state.failed
    assert lines[0].startswith(f"{job.name}: test ")
    record = finished(tmp_path / "results", job)
    assert record is not None
    assert record["request"] == json.loads(json.dumps(job.request()))
    assert record["config"]["hidden"] == 16
    assert record["config"]["seed"] == 0
    for curve in record["rounds"].values():
        assert len(curve) == 2
    assert len(record["per_client"]) == 3
    assert len(record["similarity"]["matrices"]["2"]) == 3
    assert record["bytes"]["up"] > 0
    assert record["libraries"]["torch"]
    # Nothing of this machine: neither where files lay nor the folders of tests.
    for text in strings(record):
        assert not Path(text).is_absolute(), text
        assert str(tmp_path) not in text
    assert not list(surroundings.iterdir())


_SCHEDULER = """
import sys
from pathlib import Path
from experiments import schedule
from tests.experiments.jobs import small_run, statistics_of

results, scratch = map(Path, sys.argv[1:])
schedule._scratch_root = lambda: scratch
jobs = [statistics_of(), small_run(rounds=100000)]
schedule.do_all(jobs, results, parallel=2, observe=lambda state, line: None)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_it_leaves_nothing_but_what_is_finished(
    number: signal.Signals, tmp_path: Path, surroundings: Path
) -> None:
    results = tmp_path / "results"
    # A shell that starts jobs in the background lets them ignore SIGINT; ours must not.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)" + _SCHEDULER
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(results), str(surroundings)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    family: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + TIMEOUT
        while not (
            any(path.read_text() for path in surroundings.glob("*/progress"))
            and finished(results, statistics_of())
        ):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        family = psutil.Process(process.pid).children(recursive=True)
        assert family
        process.send_signal(number)
        process.wait(TIMEOUT)
        _, alive = psutil.wait_procs(family, timeout=TIMEOUT)
        assert not alive
        assert not list(surroundings.iterdir())
        assert not list((results / ".locks").iterdir())
        assert finished(results, statistics_of())
        assert finished(results, small_run(rounds=100000)) is None
    finally:
        for left in (*family, psutil.Process()) if process.poll() is None else family:
            if left.pid != os.getpid() and left.is_running():
                left.kill()
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_killed_scheduler_s_runs_end_themselves(tmp_path: Path, surroundings: Path) -> None:
    results = tmp_path / "results"
    process = subprocess.Popen(
        [sys.executable, "-c", _SCHEDULER, str(results), str(surroundings)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    family: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + TIMEOUT
        while not list(surroundings.glob("*/progress")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        _, alive = psutil.wait_procs(family, timeout=TIMEOUT)
        assert not alive
        assert not list(surroundings.iterdir())
        lock = JobLock.acquire(results, small_run(rounds=100000))
        assert lock is not None
        lock.release()
    finally:
        for left in family:
            if left.is_running():
                left.kill()
        process.kill()
        process.wait()
