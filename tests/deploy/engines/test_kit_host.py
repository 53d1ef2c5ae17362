"""Folders that play machines: their scripts, their surroundings, what they wait for."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.engines.ports import free_ports
from deploy.engines.processes import ProcessMark, marked_processes
from shared.errors import FedGTError
from tests.harness.federation import HarnessHost

pytestmark = pytest.mark.slow

_SHOW = '#!/bin/sh\necho "$1 $PWD $FEDGT_STATE. $LAND."\n'
_SLEEP = "#!/bin/sh\necho awake\nsleep 300\n"


@pytest.fixture
def mark() -> Iterator[ProcessMark]:
    with marked_processes() as mark:
        yield mark


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    for name, text in {"show.sh": _SHOW, "sleep.sh": _SLEEP}.items():
        script = tmp_path / "kit" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(text)
        script.chmod(0o755)
    return tmp_path / "kit"


def test_ports_are_distinct_and_free() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    with socket.create_server(("127.0.0.1", ports[0])):
        assert ports[0] not in free_ports(50)


def test_scripts_begin_elsewhere_and_know_nothing_of_the_caller(
    kit: Path, tmp_path: Path, mark: ProcessMark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDGT_STATE", "mine")
    host = HarnessHost(kit, tmp_path / "host", mark)
    assert host.call("show.sh", "a").stdout == "a / . .\n"
    assert host.call("sh", "-c", "echo $PWD").stdout == f"{tmp_path / 'host'}\n"


def test_a_prefix_stands_before_every_command(kit: Path, tmp_path: Path, mark: ProcessMark) -> None:
    host = HarnessHost(kit, tmp_path / "host", mark, prefix=("env", "LAND=far"))
    assert host.call("show.sh", "a").stdout == "a / . far.\n"
    host.start("show.sh", "b").wait(60)
    assert host.log.read_text() == "b / . far.\n"


@pytest.mark.parametrize("prefix", [(), ("env",)])
def test_waiting_for_a_port(
    kit: Path, tmp_path: Path, mark: ProcessMark, prefix: tuple[str, ...]
) -> None:
    host = HarnessHost(kit, tmp_path / "host", mark, prefix=prefix)
    sleeper, [port] = host.start("sleep.sh"), free_ports(1)
    with pytest.raises(FedGTError, match=rf"nobody listens on 127.0.0.1:{port} yet: see"):
        host.wait_for_port(port, sleeper, timeout=0.1)
    with socket.create_server(("127.0.0.1", port)):
        host.wait_for_port(port, sleeper)
    ended = host.start("show.sh")
    ended.wait(60)
    with pytest.raises(FedGTError, match="it ended before it listened"):
        host.wait_for_port(free_ports(1)[0], ended)


def test_a_power_cut_is_one_machines_alone(kit: Path, tmp_path: Path, mark: ProcessMark) -> None:
    one, other = (HarnessHost(kit, tmp_path / name, mark) for name in ("one", "other"))
    ours, theirs = one.start("sleep.sh"), other.start("sleep.sh")
    one.kill()
    ours.wait(60)
    assert theirs.poll() is None
    assert os.getpgid(theirs.pid) == theirs.pid  # Ctrl-C does not reach it
