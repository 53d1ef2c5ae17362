"""Free TCP ports for servers on this machine."""

import random
import socket
from contextlib import ExitStack

# Below those that systems give to outgoing connections, one of which could take a port between
# the search and the start of the server.
_RANGE = (15000, 32000)
_RANDOM = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Return distinct ports that nobody listens on; all are held until the last is found."""
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = _RANDOM.randrange(*_RANGE)
            probe = held.enter_context(socket.socket())
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            ports.append(port)
        return ports


def why_not_free(host: str, port: int) -> str | None:
    """Return why a server could not listen at an address; None where it could."""
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            # As servers do: connections of an earlier one may still be closing.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        return error.strerror or str(error)
    return None
