"""An institution's start script: it connects again after a fault, and ends where it is refused."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flwr.server.superlink.fleet.grpc_rere.fleet_servicer import FleetServicer

from deploy.engines.kit_host import TIMEOUT, Process
from deploy.engines.local_federation import START_SUPERLINK, START_SUPERNODE
from deploy.engines.ports import free_ports
from deploy.engines.processes import ProcessMark, marked_processes
from deploy.provision.kits import provision
from tests.harness.federation import HarnessHost
from tests.harness.fleet_api import add, fleet
from tests.harness.kits import write_banks

pytestmark = pytest.mark.slow


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def kits(tmp_path: Path, port: int) -> Path:
    source = write_banks(tmp_path, port=port)
    own = f'name = "bank-a"\nport = {free_ports(1)[0]}'
    source.write_text(source.read_text().replace('name = "bank-a"', own))
    provision(source, tmp_path / "kits")
    return tmp_path / "kits"


@pytest.fixture
def mark() -> Iterator[ProcessMark]:
    with marked_processes() as mark:
        yield mark


def wait_for_line(host: HarnessHost, line: str, process: Process, *, times: int = 1) -> None:
    deadline = time.monotonic() + TIMEOUT
    while host.log.read_text().count(line) < times:
        assert process.poll() is None, host.log.read_text()
        assert time.monotonic() < deadline, host.log.read_text()
        time.sleep(0.2)


def test_a_fault_of_the_coordinator_is_survived(
    kits: Path, port: int, mark: ProcessMark, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, faults = FleetServicer.PullMessages, iter([True])

    def pull(self: FleetServicer, *arguments: Any) -> Any:
        if next(faults, False):
            raise RuntimeError("database is locked")
        return honest(self, *arguments)

    monkeypatch.setattr(FleetServicer, "PullMessages", pull)
    host = HarnessHost(kits / "bank-a", kits.parent / "host", mark)
    with fleet(kits, port) as state:
        add(state, kits, "bank-a")
        process = host.start(START_SUPERNODE)
        wait_for_line(host, "SuperNode ID", process, times=2)
        assert "it is started again" in host.log.read_text()
        process.terminate()
        assert process.wait(TIMEOUT) == 0
    # Its superexec looks now and then whether it is still there.
    deadline = time.monotonic() + TIMEOUT
    while mark.processes():
        assert time.monotonic() < deadline, mark.processes()
        time.sleep(0.2)


def test_who_is_refused_ends_with_the_reason(kits: Path, port: int, mark: ProcessMark) -> None:
    host = HarnessHost(kits / "bank-a", kits.parent / "host", mark)
    with fleet(kits, port) as state:
        add(state, kits, "bank-b")
        assert host.start(START_SUPERNODE).wait(2 * TIMEOUT) == 1
    log = host.log.read_text()
    assert "the coordinator does not know this key" in log
    assert "send node.pub to the coordinator" in log
    assert log.count("it is started again") == 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--no-such-option"], "unrecognized arguments: --no-such-option"),
        # Whoever reaches the runtime API could take tasks.
        (["--isolation", "process"], "--isolation process needs --superexec-auth-secret-file"),
    ],
)
def test_wrong_options_are_not_tried_twice(
    kits: Path, mark: ProcessMark, options: list[str], reason: str
) -> None:
    host = HarnessHost(kits / "bank-a", kits.parent / "host", mark)
    assert host.start(START_SUPERNODE, *options).wait(TIMEOUT) == 2
    assert reason in host.log.read_text()
    assert "it is started again" not in host.log.read_text()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--isolation", "process"], "--isolation process needs --superexec-auth-secret-file"),
        (["--operator-secret-file", "no-such"], "no-such is missing"),
    ],
)
def test_a_superlink_that_would_not_be_safe(
    kits: Path, mark: ProcessMark, options: list[str], reason: str
) -> None:
    host = HarnessHost(kits / "coordinator", kits.parent / "host", mark)
    assert host.start(START_SUPERLINK, *options).wait(TIMEOUT) == 2
    assert reason in host.log.read_text()


def test_the_operators_secret_does_not_travel_without_tls(kits: Path, mark: ProcessMark) -> None:
    host = HarnessHost(kits / "coordinator", kits.parent / "host", mark)
    answer = host.call("fedgt-superlink", "--insecure")
    assert answer.returncode == 2
    assert "the operator's secret must not travel without TLS" in answer.stderr


def test_a_name_that_is_not_the_kits(kits: Path, tmp_path: Path, mark: ProcessMark) -> None:
    host = HarnessHost(kits / "bank-a", tmp_path / "bank", mark)
    node = host.folder / "node.toml"
    node.write_text(node.read_text().replace('institution = "bank-a"', 'institution = "bank-q"'))
    answer = host.call(START_SUPERNODE)
    assert answer.returncode == 2
    assert "node.toml says institution = 'bank-q', the kit is for 'bank-a'" in answer.stdout
    assert 'write institution = "bank-a" into node.toml' in answer.stdout


_ENDS = """
import atexit, sys, time
from deploy.cli import supernode

def ask_to_end(*_):
    sys.exit(3)

atexit.register(time.sleep, 600)  # as what Python waits for at its end
sys.argv = ["fedgt-supernode"]
supernode.run_supernode = ask_to_end
supernode.main()
"""


def test_a_requested_end_waits_for_nothing() -> None:
    """A channel that was connecting again when its supernode was stopped held it for ever."""
    ended = subprocess.run([sys.executable, "-c", _ENDS], timeout=120)
    assert ended.returncode == 3
