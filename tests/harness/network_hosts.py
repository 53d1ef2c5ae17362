"""Hosts with networks of their own on this machine: network namespaces and links between them."""

import fcntl
import heapq
import itertools
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

_TUN = Path("/dev/net/tun")
_SET_INTERFACE = 0x400454CA  # TUNSETIFF
_TAP_WITHOUT_HEADER = 0x0002 | 0x1000  # IFF_TAP | IFF_NO_PI
_FRAME = 65536  # bytes, more than any
_IDLE = 0.2  # seconds


class Hosts:
    """Namespaces that all reach the first, the centre, at ``address``; links can be cut."""

    address = "10.99.0.1"

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._numbers = itertools.count(2)

    def command(self, host: str) -> tuple[str, ...]:
        """Return the command prefix that runs a program on a host."""
        return ("ip", "netns", "exec", self._name(host))

    def add_centre(self) -> None:
        """Add the host that the others are connected to."""
        self._add("centre")
        self._ip("-n", self._name("centre"), "link", "add", "bridge", "type", "bridge")
        self._up("centre", "bridge", self.address)

    def add(self, host: str) -> None:
        """Add a host with a good link to the centre."""
        self._add(host)
        self._ip(
            *("-n", self._name("centre"), "link", "add", f"to-{host}"),
            *("type", "veth", "peer", "name", "eth0", "netns", self._name(host)),
        )
        self._plug(host, f"to-{host}")

    def add_behind(self, host: str, link: "SlowLink") -> None:
        """Add a host whose frames to and from the centre go through ``link``."""
        self._add(host)
        near, far = link.interfaces
        self._ip("link", "set", near, "netns", self._name("centre"))
        self._ip("link", "set", far, "netns", self._name(host), "name", "eth0")
        self._plug(host, near)

    def cut(self, host: str) -> None:
        """Set the host's link down."""
        self._ip("-n", self._name(host), "link", "set", "eth0", "down")

    def restore(self, host: str) -> None:
        """Set the host's link up again."""
        self._ip("-n", self._name(host), "link", "set", "eth0", "up")

    def remove(self) -> None:
        """Remove all namespaces, and with them what is in them."""
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        for line in listed.splitlines():
            name = line.split()[0]
            if name.startswith(f"{self._prefix}-"):
                subprocess.run(["ip", "netns", "del", name], capture_output=True)

    def _name(self, host: str) -> str:
        return f"{self._prefix}-{host}"

    def _add(self, host: str) -> None:
        self._ip("netns", "add", self._name(host))
        self._up(host, "lo")

    def _plug(self, host: str, interface: str) -> None:
        self._ip("-n", self._name("centre"), "link", "set", interface, "master", "bridge")
        self._up("centre", interface)
        self._up(host, "eth0", f"10.99.0.{next(self._numbers)}")

    def _up(self, host: str, interface: str, address: str = "") -> None:
        if address:
            self._ip("-n", self._name(host), "address", "add", f"{address}/24", "dev", interface)
        self._ip("-n", self._name(host), "link", "set", interface, "up")

    def _ip(self, *arguments: str) -> None:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


class SlowLink:
    """Carries frames between two TAP devices, late, and not all of them.

    What ``tc netem`` does, for kernels without it.
    """

    def __init__(self, prefix: str, *, delay: float, loss: float) -> None:
        self.delay = delay  # seconds, each way
        self.loss = loss  # share of frames
        self.carried = self.lost = 0
        self.interfaces = (f"{prefix}n", f"{prefix}f")
        self._taps = [_open_tap(name) for name in self.interfaces]
        self._random = random.Random(0)
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the link, and its devices with it."""
        self._closing.set()
        self._thread.join()
        for tap in self._taps:
            os.close(tap)

    def _carry(self) -> None:
        late: list[tuple[float, int, int, bytes]] = []  # due, number, to, frame
        while not self._closing.is_set():
            wait = max(0.0, late[0][0] - time.monotonic()) if late else _IDLE
            for source in select.select(self._taps, [], [], min(wait, _IDLE))[0]:
                frame = os.read(source, _FRAME)
                if self._random.random() < self.loss:
                    self.lost += 1
                    continue
                self.carried += 1
                target = self._taps[1 - self._taps.index(source)]
                heapq.heappush(late, (time.monotonic() + self.delay, self.carried, target, frame))
            while late and late[0][0] <= time.monotonic():
                _, _, target, frame = heapq.heappop(late)
                try:
                    os.write(target, frame)
                except OSError:  # that end is down
                    self.lost += 1


def _open_tap(name: str) -> int:
    device = os.open(_TUN, os.O_RDWR)
    try:
        fcntl.ioctl(device, _SET_INTERFACE, struct.pack("16sH", name.encode(), _TAP_WITHOUT_HEADER))
    except OSError:
        os.close(device)
        raise
    return device


@contextmanager
def hosts_and_slow_link(*, delay: float, loss: float) -> Iterator[tuple[Hosts, SlowLink]]:
    """Make a centre, and a link for a host behind it; however the block ends, both are removed."""
    if os.geteuid() or shutil.which("ip") is None or not _TUN.exists():
        pytest.skip("needs root, the program ip and /dev/net/tun for separate hosts")
    # Interfaces have at most 15 characters; processes that run at the same time differ in this.
    unique = f"fg{os.getpid() % 10_000_000}"
    hosts = Hosts(unique)
    with ExitStack() as stack:
        stack.callback(hosts.remove)
        try:
            hosts.add_centre()
            link = SlowLink(unique, delay=delay, loss=loss)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"hosts with networks of their own cannot be made here: {error}")
        stack.callback(link.close)
        yield hosts, link
