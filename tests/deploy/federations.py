"""A coordinator and its institutions on this machine, from kits, with TLS and node keys."""

import json
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from deploy.processes import ProcessMark
from deploy.provision.kits import provision
from shared.graph import Graph
from tests.deploy.machines import Machine, free_ports, wait_for

_PATIENCE = 180.0  # seconds, on a machine that has other things to do


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that must come."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.2)


class Running:
    """A federation whose processes are all started and connected."""

    def __init__(self, place: Path, mark: ProcessMark, graphs: dict[str, Graph]) -> None:
        fleet, control, *ports = free_ports(2 + len(graphs))
        sections = [
            f'[[institutions]]\nname = "{name}"\nport = {port}\n'
            for name, port in zip(graphs, ports, strict=True)
        ]
        (place / "federation.toml").write_text(
            f'name = "banks"\n[coordinator]\naddress = "localhost:{fleet}"\n'
            f'listen = "127.0.0.1:{fleet}"\ncontrol-port = {control}\n' + "".join(sections)
        )
        provision(place / "federation.toml", place / "kits")
        machines = place / "machines"
        self._mark = mark
        self.coordinator = Machine(place / "kits" / "coordinator", machines / "coordinator", mark)
        self.banks = {
            name: Machine(place / "kits" / name, machines / name, mark) for name in graphs
        }
        superlink = self.coordinator.start("start-superlink.sh")
        for port in (fleet, control):
            wait_for(port, superlink)
        registered = self.coordinator.call("register.sh")
        assert registered.returncode == 0, registered.stderr
        self.supernodes: dict[str, subprocess.Popen[bytes]] = {}
        for name, graph in graphs.items():
            graph.save(self.banks[name].folder / "data")
            self.supernodes[name] = self.banks[name].start("start-supernode.sh")

    def run_in_background(self, settings: str) -> None:
        """Start a run; it ends with the test at the latest."""
        (self.coordinator.folder / "settings.toml").write_text(settings)
        threading.Thread(
            target=self.coordinator.call,
            args=("run.sh", "settings.toml"),
            kwargs={"patience": 10 * _PATIENCE},
            daemon=True,
        ).start()

    def rounds(self, run_name: str) -> list[dict[str, Any]]:
        """What the journal says of the rounds so far."""
        path = self.coordinator.folder / "runs" / run_name / "journal.jsonl"
        whole = path.read_text().rpartition("\n")[0] if path.exists() else ""
        events = [json.loads(line) for line in whole.splitlines()]
        assert not [event for event in events if event["event"] == "failed"], events[-1]
        return [event for event in events if event["event"] == "round"]

    def wait_for_round(self, run_name: str, number: int) -> None:
        """Wait for the end of a round."""
        for awaited in range(1, number + 1):
            wait_until(partial(self._has_played, run_name, awaited), f"round {awaited} is over")

    def _has_played(self, run_name: str, number: int) -> bool:
        return len(self.rounds(run_name)) >= number

    def processes(self, word: str) -> list[psutil.Process]:
        """Those of the federation that have a word in their command line."""
        found = []
        for process in self._mark.processes():
            with suppress(psutil.NoSuchProcess):
                if word in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def workers(self) -> dict[str, psutil.Process]:
        """Workers by their institution, whose folder they work in; no two have the same."""
        found: dict[str, psutil.Process] = {}
        for worker in self.processes("fedgt_client.worker"):
            with suppress(psutil.NoSuchProcess):
                name = Path(worker.cwd()).name
                assert name not in found
                found[name] = worker
        return found
