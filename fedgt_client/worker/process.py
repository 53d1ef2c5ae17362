"""The institution's worker: found, started, ended.

One folder for each institution of this user on this machine, which nobody else can enter, has its
socket, a lock that is held while a worker is started or ended, and a lock that the worker holds as
long as it lives, in a file that says which process it is and of which run.
"""

import fcntl
import hashlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from flwr.app import UserConfig

from fedgt_client.node import institution_name, state_root
from fedgt_client.worker.supernode import Supernode
from fedgt_client.worker.transport import Check
from shared.errors import FedGTError

_CODE = Path(__file__).parents[2]
_LONGEST_PATH = 100  # bytes; of a socket's there can be 107, on other systems 103
_BACKLOG = 16
_POLL = 0.05  # seconds


@dataclass(frozen=True)
class Resident:
    """The worker that lives at an institution."""

    pid: int
    run: int


@dataclass(frozen=True)
class Residence:
    """An institution's folder for its worker."""

    folder: Path

    @classmethod
    def of(cls, node_config: UserConfig) -> "Residence":
        """The folder for what a node says of itself; made where there is none."""
        identity = [
            institution_name(node_config),
            str(Path(str(node_config.get("data-dir", ""))).absolute()),
            str(state_root(node_config).absolute()),
        ]
        name = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
        user = Path(tempfile.gettempdir()) / f"fedgt-{os.geteuid()}"
        if len(os.fsencode(user / name / "socket")) > _LONGEST_PATH:
            user = Path("/tmp") / user.name
        for folder in (user, user / name):
            _make_private(folder)
        return cls(user / name)

    @property
    def socket(self) -> Path:
        """Where the worker listens."""
        return self.folder / "socket"

    @property
    def life(self) -> Path:
        """What the worker keeps locked."""
        return self.folder / "worker"

    def resident(self, check: Check) -> Resident | None:
        """Who lives here."""
        self.life.touch(mode=0o600)
        while True:
            with self.life.open() as life:
                try:
                    fcntl.flock(life, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    if entry := life.read():
                        return Resident(**json.loads(entry))
                else:
                    return None
            # It has just been started, and has not said yet who it is.
            check()
            time.sleep(_POLL)

    @contextmanager
    def alone(self, check: Check) -> Iterator[None]:
        """Let nobody else start or end a worker meanwhile."""
        with (self.folder / "lock").open("w") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    check()
                    time.sleep(_POLL)
            yield


@dataclass(frozen=True)
class Order:
    """Which worker is wanted."""

    run: int
    idle: float  # seconds without a message until it ends
    supernode: Supernode  # with which it ends


def reach(
    home: Residence, order: Order, check: Check, *, but_not: int | None = None
) -> tuple[int, socket.socket]:
    """The worker of this run and a line to it; it is started where there is none.

    A worker of another run, or one that cannot be reached, or that has dropped a line before
    (``but_not``, its process), is ended first.
    """
    with home.alone(check):
        resident = home.resident(check)
        if resident and resident.run == order.run and resident.pid != but_not:
            try:
                return resident.pid, _connect(home)
            except OSError:
                pass
        if resident:
            _end(home, resident, check)
        started = _start(home, order)
        return started, _connect(home)


def end(home: Residence, run: int, check: Check) -> None:
    """End the worker, if it is still that of ``run``."""
    with home.alone(check):
        if (resident := home.resident(check)) and resident.run == run:
            _end(home, resident, check)


def _end(home: Residence, resident: Resident, check: Check) -> None:
    """At once: what it has saved is whole, and it may not be able to hear."""
    try:
        os.kill(resident.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    while home.resident(check) == resident:
        check()
        time.sleep(_POLL)


def _start(home: Residence, order: Order) -> int:
    if order.supernode.is_gone():
        raise FedGTError("this institution's supernode has ended: no worker is started")
    home.socket.unlink(missing_ok=True)
    # It listens before the worker is there: who connects meanwhile waits in line.
    with socket.socket(socket.AF_UNIX) as line, home.life.open("w") as life:
        line.bind(str(home.socket))
        home.socket.chmod(0o600)
        line.listen(_BACKLOG)
        fcntl.flock(life, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _spawn(home, order, line, life)


def _spawn(home: Residence, order: Order, line: socket.socket, life: IO[str]) -> int:
    """A process that outlives this one, with this one's code and log, and no other open file."""
    options = {
        "--line": line.fileno(),
        "--life": life.fileno(),
        "--socket": home.socket,
        "--run": order.run,
        "--idle": order.idle,
        "--supernode": ",".join(map(str, order.supernode.pids)),
    }
    # Flower runs a bundle of the code, whatever may be installed.
    paths = os.pathsep.join([str(_CODE), *filter(None, sys.path)])
    return subprocess.Popen(
        # -P: or Python would look into the working directory first.
        [sys.executable, "-P", "-m", "fedgt_client.worker"]
        + [str(word) for option in options.items() for word in option],
        env=os.environ | {"PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        pass_fds=(line.fileno(), life.fileno()),
        start_new_session=True,
    ).pid


def _connect(home: Residence) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    try:
        line.settimeout(1.0)
        line.connect(str(home.socket))
    except BaseException:
        line.close()
        raise
    return line


def _make_private(folder: Path) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    facts = folder.lstat()
    if (
        not stat.S_ISDIR(facts.st_mode)
        or facts.st_uid != os.geteuid()
        or stat.S_IMODE(facts.st_mode) & 0o077
    ):
        raise FedGTError(
            f"{folder} is not a folder that this user alone can enter: remove it, or set TMPDIR"
        )
