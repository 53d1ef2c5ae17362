"""A host of a federation on this machine: a folder with a copy of a kit, whose scripts are run."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from deploy.engines.processes import ProcessMark
from shared.errors import FedGTError

Process = subprocess.Popen[bytes]

TIMEOUT = 300.0  # seconds, generous for a busy machine
_POLL = 0.2  # seconds
_ROOT = Path(__file__).parents[2]


def host_environment(mark: ProcessMark) -> dict[str, str]:
    """Return the user's environment, with the programs and the code of this very process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FEDGT_")}
    return (
        kept
        | {
            "PATH": _join_paths(str(Path(sys.executable).parent), os.environ.get("PATH")),
            "PYTHONPATH": _join_paths(str(_ROOT), os.environ.get("PYTHONPATH")),
            "PYTHONUNBUFFERED": "1",
        }
        | mark.environment()
    )


def _join_paths(*paths: str | None) -> str:
    return os.pathsep.join(filter(None, paths))


class KitHost:
    """A copy of a kit, in another folder than it was made in."""

    def __init__(self, kit: Path, folder: Path, mark: ProcessMark) -> None:
        self.folder = folder
        self.log = folder / "log.txt"
        self.environment = host_environment(mark)
        shutil.copytree(kit, folder)

    def command(self, *arguments: str) -> list[str]:
        """Return the command line that runs ``arguments`` on this host."""
        return list(arguments)

    def start(self, script: str, *arguments: str) -> Process:
        """Start a script of the kit that keeps running; its output goes to ``log``."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.command(str(self.folder / script), *arguments),
                cwd="/",  # scripts find their own folder
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches this process alone, which then ends the others.
                start_new_session=True,
            )

    def call(self, *arguments: str, timeout: float = TIMEOUT) -> "subprocess.CompletedProcess[str]":
        """Run a script of the kit, or a program such as ``fedgt`` in its folder, to its end."""
        script = self.folder / arguments[0]
        program, cwd = (str(script), "/") if script.exists() else (arguments[0], str(self.folder))
        return subprocess.run(
            self.command(program, *arguments[1:]),
            cwd=cwd,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )

    def wait_for_port(
        self, port: int, process: Process, *, host: str = "127.0.0.1", timeout: float = TIMEOUT
    ) -> None:
        """Wait until ``process`` listens, as seen from this host."""
        deadline = time.monotonic() + timeout
        while not self.accepts(host, port):
            if process.poll() is not None:
                raise FedGTError(f"it ended before it listened on {host}:{port}: see {self.log}")
            if time.monotonic() > deadline:
                raise FedGTError(f"nobody listens on {host}:{port} yet: see {self.log}")
            time.sleep(_POLL)

    def accepts(self, host: str, port: int) -> bool:
        """Tell whether a connection to an address is accepted, as seen from this host."""
        try:
            socket.create_connection((host, port), 2).close()
        except OSError:
            return False
        return True
