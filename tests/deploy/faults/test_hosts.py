"""The hosts that other tests use: reachable, slow where they should be, cut when they are cut."""

import subprocess
import sys

import pytest

from tests.harness.network_hosts import Hosts, hosts_and_slow_link

_SERVE = """
import socket
with socket.create_server(("0.0.0.0", 7000)) as server:
    print("listening", flush=True)
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall(connection.recv(100))
"""
_ASK = """
import socket, sys, time
started = time.monotonic()
with socket.create_connection((sys.argv[1], 7000), float(sys.argv[2])) as connection:
    connection.sendall(b"hello")
    assert connection.recv(100) == b"hello"
print(time.monotonic() - started)
"""


def ask(hosts: Hosts, host: str, patience: float = 60.0) -> "subprocess.CompletedProcess[str]":
    command = [*hosts.command(host), sys.executable, "-c", _ASK, hosts.address, str(patience)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


@pytest.mark.slow
def test_links() -> None:
    with hosts_and_slow_link(delay=0.25, loss=0.0) as (hosts, link):
        hosts.add("near")
        hosts.add_behind("far", link)
        server = subprocess.Popen(
            [*hosts.command("centre"), sys.executable, "-c", _SERVE], stdout=subprocess.PIPE
        )
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"listening\n"
            assert ask(hosts, "near").returncode == 0
            # A connection and an answer: there and back twice, a quarter of a second each way.
            assert float(ask(hosts, "far").stdout) >= 1.0
            hosts.cut("near")
            assert "OSError" in ask(hosts, "near").stderr
            hosts.restore("near")
            assert ask(hosts, "near").returncode == 0
            link.loss = 1.0
            assert ask(hosts, "far", 2.0).returncode != 0
            assert link.lost > 0
        finally:
            server.kill()
            server.communicate()
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert hosts.command("centre")[-1] not in listed
