"""A federation of processes on this machine, each started by its kit's own script."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from deploy.processes import ProcessMark

_ROOT = Path(__file__).parents[2]
_PATIENCE = 60.0  # seconds, on a machine that has other things to do


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on; all are held until the last is found."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def environment(mark: ProcessMark) -> dict[str, str]:
    """The user's, with the programs of this Python; nothing of an earlier test."""
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FEDGT_")}
    return kept | {"PATH": programs, "PYTHONUNBUFFERED": "1"} | mark.environment()


class Machine:
    """A copy of a kit, somewhere else than it was made."""

    def __init__(self, kit: Path, folder: Path, mark: ProcessMark) -> None:
        self.folder = folder
        self.log = folder / "log.txt"
        self._environment = environment(mark)
        shutil.copytree(kit, folder)

    def start(self, script: str) -> "subprocess.Popen[bytes]":
        """Start a script that keeps running."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [str(self.folder / script)],
                cwd="/",  # scripts find their own folder
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def call(
        self, *command: str, patience: float = _PATIENCE
    ) -> "subprocess.CompletedProcess[str]":
        """Run a script of the kit, or ``fedgt``, to its end."""
        script = self.folder / command[0]
        return subprocess.run(
            [str(script) if script.exists() else command[0], *command[1:]],
            cwd="/" if script.exists() else self.folder,
            # 'fedgt' is the one under test, wherever the installed one comes from.
            env=self._environment | {"PYTHONPATH": str(_ROOT)},
            capture_output=True,
            text=True,
            timeout=patience,
            stdin=subprocess.DEVNULL,
        )

    def doctor(self) -> dict[str, dict[str, Any]]:
        """The findings of ``fedgt doctor`` by the names of the checks."""
        answer = self.call("fedgt", "doctor", ".", "--json")
        report = json.loads(answer.stdout)
        assert answer.returncode == (0 if report["ok"] else 1)
        return {check["name"]: check for check in report["checks"]}


def wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until ``process`` listens."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        assert process.poll() is None, "it ended"
        assert time.monotonic() < deadline, "nobody listens"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
