"""Does unfinished jobs, several at a time, each in a process of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deploy.engines.processes import ProcessMark, marked_processes
from experiments.job import Job
from experiments.job_locks import JobLock
from experiments.records import finished
from experiments.runner import PROGRESS, encode
from fedgt_client.data.catalog import CATALOG

_ROOT = Path(__file__).parents[1]
_PAUSE = 0.2  # seconds between looks at the running jobs
_SHARED_MEMORY = Path("/dev/shm")
# A run writes states and checkpoints of some gigabytes, again and again.
_SCRATCH_BYTES = 4 * 2**30


@dataclass
class Running:
    """A job under way."""

    job: Job
    lock: JobLock
    scratch: Path
    process: "subprocess.Popen[bytes]"

    @property
    def progress(self) -> float:
        """Share of the rounds that are done."""
        try:
            return int((self.scratch / PROGRESS).read_text()) / self.job.rounds
        except (OSError, ValueError):
            return 0.0

    def reason(self) -> str:
        """Return why it failed, in one line."""
        lines = (self.scratch / "errors").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"ended with exit code {self.process.returncode}"


@dataclass
class State:
    """How far a schedule is."""

    total: int
    cost: float  # of all jobs
    done: list[Job] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # reason by name
    elsewhere: set[Job] = field(default_factory=set)  # another scheduler had them
    started: float = field(default_factory=time.monotonic)
    done_cost: float = 0.0  # of what ended, however
    under_way: float = 0.0  # cost already paid for what has not
    running: dict[str, float] = field(default_factory=dict)  # share of its rounds, by name

    @property
    def seconds_left(self) -> float | None:
        """A guess from what is done; None while nothing is."""
        paid = self.done_cost + self.under_way
        if paid <= 0:
            return None
        return (time.monotonic() - self.started) / paid * max(self.cost - paid, 0.0)


Observer = Callable[[State, str], None]  # called on every change; no line: mere progress


def unfinished(jobs: Iterable[Job], results: Path) -> list[Job]:
    """Return what is still to do, cell by cell, so that what is cut short leaves whole columns.

    Small datasets come first; of a cell the cheap jobs.
    """
    waiting = [job for job in dict.fromkeys(jobs) if finished(results, job) is None]
    return sorted(waiting, key=lambda job: (*_place(job), job.cost, job.name))


def _place(job: Job) -> tuple[int, str, int]:
    return CATALOG[job.dataset].nodes, job.setting, job.clients


def do_all(jobs: list[Job], results: Path, *, parallel: int, observe: Observer) -> State:
    """Do ``jobs``; one that fails is reported, and the others go on.

    What another scheduler is doing is waited for, and done here where it comes to nothing there.
    """
    state = State(len(jobs), sum(job.cost for job in jobs))
    waiting, running = deque(jobs), list[Running]()
    with _processes(running) as mark:
        while waiting or running:
            for _ in range(len(waiting)):
                if len(running) < parallel:
                    observe(state, _start_next(waiting, running, results, state, mark))
            time.sleep(_PAUSE)
            for item in [item for item in running if item.process.poll() is not None]:
                running.remove(item)
                observe(state, _settle(item, results, state))
            state.running = {item.job.name: item.progress for item in running}
            state.under_way = sum(item.progress * item.job.cost for item in running)
            observe(state, "")
    return state


@contextmanager
def _processes(running: list[Running]) -> Iterator[ProcessMark]:
    """Leave no process, lock or scratch folder behind, however the block ends."""
    try:
        with marked_processes() as mark:
            yield mark
    finally:
        for item in running:
            item.process.wait()
            _clear(item)


def _start_next(
    waiting: deque[Job], running: list[Running], results: Path, state: State, mark: ProcessMark
) -> str:
    """Start the first of those that wait, or put it back; a line where there is news."""
    job = waiting.popleft()
    lock = JobLock.acquire(results, job)
    if lock is None:
        waiting.append(job)
        news = job not in state.elsewhere
        state.elsewhere.add(job)
        return f"{job.name} is under way elsewhere: waiting for it" if news else ""
    if finished(results, job):  # by another scheduler, since we looked
        lock.release()
        state.done.append(job)
        state.done_cost += job.cost
        return f"{job.name}: finished elsewhere"
    scratch = Path(tempfile.mkdtemp(prefix="fedgt-experiment-", dir=_scratch_root()))
    try:
        process = _spawn(job, results, scratch, lock, mark)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        lock.release()
        raise
    running.append(Running(job, lock, scratch, process))
    return ""


def _spawn(
    job: Job, results: Path, scratch: Path, lock: JobLock, mark: ProcessMark
) -> "subprocess.Popen[bytes]":
    paths = [str(_ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        # The code of this process, also where another copy is installed.
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        **mark.environment(),
    }
    arguments = [encode(job), str(results), str(scratch), str(os.getpid())]
    with (scratch / "errors").open("wb") as errors:
        return subprocess.Popen(
            # -P: not what happens to have the same name in the folder this was called from.
            [sys.executable, "-P", "-m", "experiments.runner", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            # The lock lasts as long as the run, whatever becomes of the scheduler.
            pass_fds=(lock.handle,),
            # Ctrl-C is for the scheduler, which then ends its runs.
            start_new_session=True,
        )


def _settle(item: Running, results: Path, state: State) -> str:
    """Take note of a job that has ended; a line about it."""
    record = finished(results, item.job) if item.process.returncode == 0 else None
    state.done_cost += item.job.cost
    if record is None:
        state.failed[item.job.name] = reason = item.reason()
        _clear(item)
        return f"{item.job.name} failed: {reason}"
    _clear(item)
    state.done.append(item.job)
    test = record.get("test")
    accuracy = "" if test is None else f"test {100 * test:.2f} %, "
    return f"{item.job.name}: {accuracy}{record['seconds']:.0f} s"


def _clear(item: Running) -> None:
    shutil.rmtree(item.scratch, ignore_errors=True)
    item.lock.release()


def _scratch_root() -> Path | None:
    """Return shared memory where there is plenty, else the usual place for temporary files."""
    try:
        free = shutil.disk_usage(_SHARED_MEMORY).free
    except OSError:
        return None
    writable = os.access(_SHARED_MEMORY, os.W_OK)
    return _SHARED_MEMORY if writable and free > _SCRATCH_BYTES else None
