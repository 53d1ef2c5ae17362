"""A machine of a federation, played by a folder here: a copy of a kit, and its own scripts."""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deploy.engines.processes import ProcessMark
from shared.errors import FedGTError

Process = subprocess.Popen[bytes]

PATIENCE = 300.0  # seconds, on a machine that has other things to do
_POLL = 0.2  # seconds
_PORTS = (15000, 32000)
_CHANCE = random.SystemRandom()
_ROOT = Path(__file__).parents[2]
_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; all are held until the last is found.

    Below those that systems give to outgoing connections, one of which could take a port between
    this call and the server that it is meant for.
    """
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = _CHANCE.randrange(*_PORTS)
            probe = held.enter_context(socket.socket())
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            ports.append(port)
        return ports


def host_environment(mark: ProcessMark) -> dict[str, str]:
    """The user's, with the programs of this Python and the very code that runs now."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FEDGT_")}
    return (
        kept
        | {
            "PATH": _joined(str(Path(sys.executable).parent), os.environ.get("PATH")),
            "PYTHONPATH": _joined(str(_ROOT), os.environ.get("PYTHONPATH")),
            "PYTHONUNBUFFERED": "1",
        }
        | mark.environment()
    )


def _joined(*places: str | None) -> str:
    return os.pathsep.join(filter(None, places))


class Machine:
    """A copy of a kit, somewhere else than it was made.

    ``prefix`` stands before every command, such as ``ip netns exec NAME`` for a machine with a
    network of its own.
    """

    def __init__(
        self, kit: Path, folder: Path, mark: ProcessMark, *, prefix: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.log = folder / "log.txt"
        self._prefix = tuple(prefix)
        self._own = ProcessMark("FEDGT_MACHINE")
        self._environment = host_environment(mark) | self._own.environment()
        shutil.copytree(kit, folder)

    def start(self, script: str, *arguments: str) -> Process:
        """Start a script of the kit that keeps running; what it says is in ``log``."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*self._prefix, str(self.folder / script), *arguments],
                cwd="/",  # scripts find their own folder
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches this process alone, which then ends the others.
                start_new_session=True,
            )

    def call(self, *command: str, patience: float = PATIENCE) -> "subprocess.CompletedProcess[str]":
        """Run a script of the kit, or a program such as ``fedgt`` in its folder, to its end."""
        script = self.folder / command[0]
        program, place = (str(script), "/") if script.exists() else (command[0], str(self.folder))
        return subprocess.run(
            [*self._prefix, program, *command[1:]],
            cwd=place,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=patience,
            stdin=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """End every process of this machine at once, as a power cut would."""
        self._own.end()

    def doctor(self) -> dict[str, dict[str, Any]]:
        """The findings of ``fedgt doctor`` by the names of the checks."""
        answer = self.call("fedgt", "doctor", ".", "--json")
        if answer.returncode not in (0, 1):
            raise FedGTError(f"fedgt doctor fails: {answer.stderr.strip()}")
        return {check["name"]: check for check in json.loads(answer.stdout)["checks"]}

    def wait_for(
        self, port: int, process: Process, *, host: str = "127.0.0.1", patience: float = PATIENCE
    ) -> None:
        """Wait until ``process`` listens, as seen from this machine."""
        deadline = time.monotonic() + patience
        while not self._answers(host, port):
            if process.poll() is not None:
                raise FedGTError(f"it ended before it listened on {host}:{port}: see {self.log}")
            if time.monotonic() > deadline:
                raise FedGTError(f"nobody listens on {host}:{port} yet: see {self.log}")
            time.sleep(_POLL)

    def _answers(self, host: str, port: int) -> bool:
        if self._prefix:
            probe = [*self._prefix, sys.executable, "-c", _CONNECT, host, str(port)]
            return subprocess.run(probe, capture_output=True).returncode == 0
        try:
            socket.create_connection((host, port), 2).close()
        except OSError:
            return False
        return True
