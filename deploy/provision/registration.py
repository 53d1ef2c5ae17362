"""The SuperLink's list of keys, brought in line with the coordinator's kit.

By Flower's control API, as ``flwr supernode register`` and ``unregister`` use it. Those commands
do not tell which node has which key, and so cannot be run twice or undone by name.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, UnregisterNodeRequest
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from deploy.flower import control
from deploy.provision.pki import fingerprint
from deploy.provision.registered_keys import RegisteredKeys

_UNREGISTERED = "unregistered"
_ATTEMPTS = 8
_PAUSE = 2.0  # seconds


@dataclass
class Registered:
    """What the SuperLink knows now: fingerprints by institution."""

    added: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    removed: dict[str, str] = field(default_factory=dict)


def register(kit: Path) -> Registered:
    """Register the kit's keys at its SuperLink, and take the revoked ones out."""
    with control(kit) as client:
        return _patiently(RegisteredKeys(kit), client)


def _patiently(ring: RegisteredKeys, client: ControlHttpClient) -> Registered:
    """Align; a SuperLink that has just begun to listen may not have its database yet."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return _align(ring, client)
        except httpx.HTTPStatusError as error:
            if not error.response.is_server_error:
                raise
            time.sleep(_PAUSE)
    return _align(ring, client)


def _align(ring: RegisteredKeys, client: ControlHttpClient) -> Registered:
    nodes = client.ListNodes(ListNodesRequest()).nodes_info
    known = {node.public_key: node for node in nodes if node.status != _UNREGISTERED}
    result = Registered()
    # First out, then in: an institution that came back has one node of its name, not two.
    for mark, key in ring.revoked().items():
        if node := known.get(public_key_to_bytes(key)):
            client.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
            result.removed[node.name] = mark
    for name in sorted(ring.names()):
        public = ring.required(name)
        key_bytes = public_key_to_bytes(public)
        if key_bytes in known:
            result.kept[name] = fingerprint(public)
        else:
            client.RegisterNode(RegisterNodeRequest(public_key=key_bytes, name=name))
            result.added[name] = fingerprint(public)
    return result
