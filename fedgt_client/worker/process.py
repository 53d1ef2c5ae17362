"""The institution's worker process: found, started, stopped.

Each institution of this user on this machine has a directory that nobody else can enter. In it are
the worker's socket, a lock that is held while a worker is started or stopped, and the pid lock: a
file that says which process the worker is and of which run, locked while that process runs.
"""

import fcntl
import hashlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from fedgt_client.node import NodeConfig
from fedgt_client.worker.supernode import Supernode
from fedgt_client.worker.transport import Check
from shared.errors import FedGTError

_CODE = Path(__file__).parents[2]
_LONGEST_PATH = 100  # bytes of a socket's path; Linux allows 107, other systems 103
_POLL = 0.05  # seconds


@dataclass(frozen=True)
class WorkerInfo:
    """A worker that is running."""

    pid: int
    run: int


@dataclass(frozen=True)
class WorkerSpec:
    """Which worker is wanted."""

    run: int
    idle: float  # seconds without a message until it ends
    supernode: Supernode  # with which it ends


@dataclass(frozen=True)
class WorkerDirectory:
    """An institution's directory for its worker."""

    path: Path

    @classmethod
    def create(cls, node: NodeConfig) -> "WorkerDirectory":
        """Return the directory of an institution, made where there is none."""
        directory = cls.of(node, os.geteuid())
        for path in (directory.path.parent, directory.path):
            _make_private(path)
        return directory

    @classmethod
    def of(cls, node: NodeConfig, user: int) -> "WorkerDirectory":
        """Return the directory of an institution whose app runs as ``user``, which may not be."""
        identity = [
            node.name,
            str(Path(node.data_dir).absolute()),
            str(node.state_root().absolute()),
        ]
        name = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
        parent = Path(tempfile.gettempdir()) / f"fedgt-{user}"
        if len(os.fsencode(parent / name / "socket")) > _LONGEST_PATH:
            parent = Path("/tmp") / parent.name
        return cls(parent / name)

    @property
    def socket(self) -> Path:
        """Where the worker listens."""
        return self.path / "socket"

    @property
    def pid_lock(self) -> Path:
        """What the worker keeps locked."""
        return self.path / "worker"

    def worker(self, check: Check) -> WorkerInfo | None:
        """Return the worker that is running; wait for one that has just been started."""
        self.pid_lock.touch(mode=0o600)
        while True:
            with self.pid_lock.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    if entry := file.read():
                        return WorkerInfo(**json.loads(entry))
                else:
                    return None
            check()
            time.sleep(_POLL)

    @contextmanager
    def locked(self, check: Check) -> Iterator[None]:
        """Hold the lock that starting and stopping a worker needs."""
        lock = FileLock(self.path / "lock")
        while True:
            try:
                lock.acquire(timeout=_POLL)
                break
            except Timeout:
                check()
        try:
            yield
        finally:
            lock.release()


def write_info(pid_lock: int, run: int) -> None:
    """Say in the pid lock, an open file of the worker, that this process can be called."""
    os.write(pid_lock, json.dumps(asdict(WorkerInfo(os.getpid(), run))).encode())


def find_or_start(
    directory: WorkerDirectory, spec: WorkerSpec, check: Check, *, replace: int | None = None
) -> int:
    """Return the process id of the worker of this run, which is started where there is none.

    A worker of another run, or one that has failed before (process ``replace``), is stopped first.
    """
    with directory.locked(check):
        info = directory.worker(check)
        if info and directory.socket.exists() and info.run == spec.run and info.pid != replace:
            return info.pid
        if info:
            _kill(directory, info, check)
        pid = _start(directory, spec)
        directory.worker(check)  # until it can be called, or has ended
        return pid


def stop(directory: WorkerDirectory, run: int, check: Check) -> None:
    """Stop the worker, if it is still that of ``run``."""
    with directory.locked(check):
        if (info := directory.worker(check)) and info.run == run:
            _kill(directory, info, check)


def ask_to_end(node: NodeConfig, run: int, user: int) -> bool:
    """Ask the worker of an institution to end, if there is one of ``run``; return whether.

    By removing its socket, which needs no right to send it signals.
    """
    directory = WorkerDirectory.of(node, user)
    try:
        info = WorkerInfo(**json.loads(directory.pid_lock.read_text()))
        if info.run != run:
            return False
        directory.socket.unlink()
    except (OSError, ValueError, TypeError):  # it has ended by itself, or is just starting
        return False
    return True


def _kill(directory: WorkerDirectory, info: WorkerInfo, check: Check) -> None:
    """Kill a worker at once: what it saves is written atomically, and it may be hung."""
    try:
        os.kill(info.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    while directory.worker(check) == info:
        check()
        time.sleep(_POLL)


def _start(directory: WorkerDirectory, spec: WorkerSpec) -> int:
    """Start a process that outlives this one, with its code and log, and no other open file."""
    if spec.supernode.is_gone():
        raise FedGTError("this institution's supernode has ended: no worker is started")
    directory.socket.unlink(missing_ok=True)
    with directory.pid_lock.open("w") as pid_lock:
        fcntl.flock(pid_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        options = {
            "--pid-lock": pid_lock.fileno(),
            "--socket": directory.socket,
            "--run": spec.run,
            "--idle": spec.idle,
            "--supernode": ",".join(map(str, spec.supernode.pids)),
        }
        # Flower runs a bundle of the code, whatever may be installed.
        paths = os.pathsep.join([str(_CODE), *filter(None, sys.path)])
        return subprocess.Popen(
            # -P: or Python would look into the working directory first.
            [sys.executable, "-P", "-m", "fedgt_client.worker"]
            + [str(part) for option in options.items() for part in option],
            env=os.environ | {"PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            pass_fds=(pid_lock.fileno(),),
            start_new_session=True,
        ).pid


def _make_private(path: Path) -> None:
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if (
        not stat.S_ISDIR(status.st_mode)
        or status.st_uid != os.geteuid()
        or stat.S_IMODE(status.st_mode) & 0o077
    ):
        raise FedGTError(
            f"{path} is not a folder that this user alone can enter: remove it, or set TMPDIR"
        )
