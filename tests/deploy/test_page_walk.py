"""The operator's page, from the first command to the last, in three folders as three hosts."""

import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from deploy.engines.kit_host import TIMEOUT, Process, host_environment
from deploy.engines.ports import free_ports
from deploy.engines.processes import ProcessMark, marked_processes
from fedgt_client.data.partition import institution_graphs
from fedgt_client.graph import Graph
from tests.harness.operator_page import Block, blocks, command_names
from tests.harness.processes import kill_process_tree

_ID = "account-of-ours-"  # of every account, to be found wherever it should not be
_HOSTS = ("coordinator", "bank-a", "bank-b")
_RUN = 3 * TIMEOUT
_CONNECTED = "SuperNode ID"  # what a supernode says once it is let in
# HOST.example.org:PATH is a folder beside this host's.
_SCP = """#!/bin/sh
set -eu
how=
[ "$1" != -r ] || { how=-r; shift; }
path=${2#*:}
exec cp $how "$1" "$HOSTS/${2%%.*}/${path:-.}"
"""
_SMALL = "\nhidden = 16\nheads = 2\nsamples = 4\nglobal-nodes = 4\ngive-up-after = 900.0\n"


def write_tables(graph: Graph, folder: Path) -> None:
    """Write the tables that an institution has before it joins a federation."""
    assert isinstance(graph.features, np.ndarray)
    with (folder / "accounts.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["account", *graph.feature_names, "risk"])
        for node in range(graph.num_nodes):
            label = graph.class_names[graph.labels[node]]
            writer.writerow([f"{_ID}{node}", *graph.features[node].tolist(), label])
    sources = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    with (folder / "transfers.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["from", "to"])
        pairs = zip(sources.tolist(), graph.indices.tolist(), strict=True)
        writer.writerows((f"{_ID}{a}", f"{_ID}{b}") for a, b in pairs if a < b)


class Walk:
    """Three hosts, and someone who types."""

    def __init__(self, place: Path, mark: ProcessMark) -> None:
        self._place, self._mark = place, mark
        self._ports = dict(zip(("fleet", "control"), free_ports(2), strict=True))
        self.processes: dict[str, Process] = {}
        for host in _HOSTS:
            self.home(host).mkdir(parents=True)
        (place / "bin").mkdir()
        (place / "bin" / "scp").write_text(_SCP)
        (place / "bin" / "scp").chmod(0o755)

    def home(self, host: str) -> Path:
        return self._place / "hosts" / host

    def write(self, block: Block) -> None:
        """Save a file of the page, with this machine's address and free ports."""
        host, name = block.where
        address = "coordinator.example.org:9092"
        assert address in block.text
        text = block.text.replace(address, f"localhost:{self._ports['fleet']}")
        text = text.replace(
            "[coordinator]", f"[coordinator]\ncontrol-port = {self._ports['control']}"
        )
        (self.home(host) / name).write_text(text)

    def type(self, block: Block, *, ends_with: int = 0, saying: str = "") -> str:
        """Run a block to its end; what it prints."""
        answer = subprocess.run(
            ["sh", "-eu", "-c", block.text],
            cwd=self.home(block.where[0]),
            env=self._environment(block.where[0]),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_RUN,
        )
        output = f"{block.text}\n{answer.stdout}\n{answer.stderr}"
        assert (answer.returncode, saying in answer.stderr) == (ends_with, True), output
        return answer.stdout

    def start(self, block: Block) -> None:
        """Run a block that does not end."""
        host = block.where[0]
        path = self.home(host) / "log.txt"
        if earlier := self.processes.get(host):
            kill_process_tree(earlier)
        connected = path.read_text().count(_CONNECTED) if path.exists() else 0
        with path.open("ab") as log:
            self.processes[host] = subprocess.Popen(
                ["sh", "-eu", "-c", f"exec {block.text}"],
                cwd=self.home(host),
                env=self._environment(host),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if host == "coordinator":
            self._wait_for_coordinator()
        else:
            self._wait_for(host, lambda: path.read_text().count(_CONNECTED) > connected)

    def _wait_for_coordinator(self) -> None:
        self._wait_for("coordinator", lambda: {"fleet port", "control"} <= self._green())

    def _wait_for(self, host: str, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        log = self.home(host) / "log.txt"
        while not is_there():
            assert self.processes[host].poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(1)

    def _green(self) -> set[str]:
        doctor = Block("sh", ("coordinator",), "fedgt doctor kits/coordinator --json || true\n")
        checks = json.loads(self.type(doctor))["checks"]
        return {check["name"] for check in checks if check["state"] == "ok"}

    def _environment(self, host: str) -> dict[str, str]:
        common = host_environment(self._mark)
        path = os.pathsep.join((str(self._place / "bin"), common["PATH"]))
        return common | {
            "PATH": path,
            "HOME": str(self.home(host)),
            "HOSTS": str(self._place / "hosts"),
        }


@pytest.mark.slow
@pytest.mark.skipif(
    " " in sys.prefix,
    reason="Flower's SuperLink has no database in an environment whose path has a space",
)
def test_the_page_from_top_to_bottom(tmp_path: Path) -> None:
    banks = institution_graphs("consortium", clients=6, setting="disjoint", seed=0)
    with marked_processes() as mark:
        walk = Walk(tmp_path, mark)
        for bank, graph in zip(_HOSTS[1:], (banks[0], banks[2]), strict=True):
            write_tables(graph, walk.home(bank))
        settings = walk.home("coordinator") / "kits" / "coordinator" / "run.toml"
        typed = []
        for block in blocks():
            match block.where:
                case ("install",) | ("docker", *_):
                    continue  # exercised in test_page
                case ("coordinator", "resume"):
                    if "resume" in command_names():
                        # The run of the page came to its end.
                        walk.type(block, ends_with=2, saying="there is nothing to resume")
                case (_, "federation.toml"):
                    walk.write(block)
                case (_, "running"):
                    walk.start(block)
                case _:
                    if "run.sh" in block.text:
                        # The page's commands, on a model that is small.
                        settings.write_text(
                            settings.read_text().replace("rounds = 100", "rounds = 2") + _SMALL
                        )
                    walk.type(block)
                    typed.append(block.text)
        assert sum("run.sh" in text for text in typed) == 1
        result = json.loads((settings.parent / "runs/first/result.json").read_text())
        assert (result["rounds"], sorted(result["per_client"])) == (2, ["bank-a", "bank-b"])
        # After all of it, bank-b is back with its new key.
        walk.type(Block("sh", ("bank-b",), "fedgt doctor bank-b --only admission\n"))
        assert walk.processes["bank-a"].poll() is None
        check_logs(walk)
        check_what_the_coordinator_has(walk)
    assert not mark.processes()


def check_logs(walk: Walk) -> None:
    """Check that nobody was shown a traceback, and that logs are kept for their owners alone."""
    for host in _HOSTS:
        assert "Traceback" not in (walk.home(host) / "log.txt").read_text(errors="replace")
        kept = list(walk.home(host).rglob("logs/*.log"))
        assert kept
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in kept)


def check_what_the_coordinator_has(walk: Walk) -> None:
    """Look for ids, values and places of the institutions in every file of the coordinator's."""
    private = {_ID.encode()}
    for bank in _HOSTS[1:]:
        private.add(str(walk.home(bank)).encode())
        first = (walk.home(bank) / "accounts.csv").read_text().splitlines()[1].split(",")
        private |= {value.encode() for value in first[1:-1] if len(value) > 8}
    assert len(private) > 5
    searched = 0
    for path in walk.home("coordinator").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [one for one in private if one in content], path
            searched += 1
    assert searched > 50
