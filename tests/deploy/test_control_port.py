"""From another host: the Fleet port answers, the control port does not.

Two network namespaces with a cable between them stand for two hosts.
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from deploy.doctor.check import State
from deploy.doctor.kit import CoordinatorKit
from deploy.engines.processes import marked_processes
from tests.fedgt_client.graphs import two_groups
from tests.harness.federation import HarnessFederation, Network

_COORDINATOR, _BANK = "10.213.77.1", "10.213.77.2"
_KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 10).close()
except ConnectionRefusedError:
    print("refused")
else:
    print("answers")
"""
_HANDSHAKE = """
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[3])
context.set_alpn_protocols(["h2"])
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 10) as plain:
    with context.wrap_socket(plain, server_hostname=sys.argv[1]) as secure:
        print(secure.version())
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@dataclass(frozen=True)
class Host:
    """A network namespace."""

    name: str

    @property
    def prefix(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.name)

    def python(self, code: str, *arguments: str) -> str:
        answer = subprocess.run(
            [*self.prefix, sys.executable, "-c", code, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.strip()


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Make two hosts with a cable between them, and remove them afterwards."""
    mark = uuid4().hex[:8]
    hosts = Host(f"fedgt-{mark}-a"), Host(f"fedgt-{mark}-b")
    cable = f"fg{mark}a", f"fg{mark}b"  # names of at most 15 characters
    try:
        for host in hosts:
            ip("netns", "add", host.name)
        ip("link", "add", cable[0], "type", "veth", "peer", "name", cable[1])
        for host, end, address in zip(hosts, cable, (_COORDINATOR, _BANK), strict=True):
            ip("link", "set", end, "netns", host.name)
            ip("-n", host.name, "address", "add", f"{address}/24", "dev", end)
            ip("-n", host.name, "link", "set", end, "up")
            ip("-n", host.name, "link", "set", "lo", "up")
        yield hosts
    finally:
        for host in hosts:
            subprocess.run(["ip", "netns", "delete", host.name], capture_output=True)


def why_not() -> str | None:
    """Return why namespaces cannot be made here."""
    if shutil.which("ip") is None:
        return "the program 'ip' is not installed"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with two_hosts():
            return None
    except (subprocess.CalledProcessError, OSError) as error:
        return f"network namespaces cannot be made here ({error})"


@pytest.mark.slow
@pytest.mark.skipif(
    " " in sys.prefix,
    reason="Flower's SuperLink has no database in an environment whose path has a space",
)
def test_the_control_port_is_closed_to_other_hosts(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(reason)
    with two_hosts() as (coordinator, bank), marked_processes() as mark:
        network = Network(
            dial_host=_COORDINATOR,
            listen_host="0.0.0.0",
            prefixes={"coordinator": coordinator.prefix, "bank-a": bank.prefix},
        )
        federation = HarnessFederation(tmp_path, {"bank-a": two_groups()}, mark, network=network)
        federation.start_superlink()
        fleet, control = str(federation.fleet_port), str(federation.control_port)
        # On its own host, the coordinator answers on both.
        assert coordinator.python(_KNOCK, "127.0.0.1", control) == "answers"
        assert coordinator.python(_KNOCK, _COORDINATOR, control) == "refused"
        # From outside, on one.
        assert bank.python(_KNOCK, _COORDINATOR, control) == "refused"
        authority = str(federation.institutions["bank-a"].folder / "ca.crt")
        assert bank.python(_HANDSHAKE, _COORDINATOR, fleet, authority) == "TLSv1.3"

        federation.register()
        found = federation.institutions["bank-a"].doctor()
        assert {found[name]["state"] for name in ("port", "tls", "admission")} == {State.ok}
        found = federation.coordinator.doctor()
        assert {found[name]["state"] for name in ("fleet port", "control")} == {State.ok}
        kit = CoordinatorKit.open(federation.coordinator.folder)
        assert (kit.control.host, kit.listen.host) == ("127.0.0.1", "0.0.0.0")
        with pytest.raises(ConnectionRefusedError):
            # Nor is it on the loopback of the machine that plays both hosts.
            socket.create_connection(("127.0.0.1", federation.control_port), 5)
    assert not mark.processes()
