"""Registration of the kit's keys at the SuperLink.

``flwr supernode register`` and ``unregister`` use the same control API, but do not tell which node
has which key, and so cannot be run twice or undone by name.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from deploy.flower import public_key_to_bytes
from deploy.flower.control import ControlClient, connect_control
from deploy.provision.pki import fingerprint
from deploy.provision.registered_keys import RegisteredKeys

_ATTEMPTS = 20
_PAUSE = 2.0  # seconds


@dataclass
class RegistrationChanges:
    """What a registration changed at the SuperLink: fingerprints by institution."""

    added: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    removed: dict[str, str] = field(default_factory=dict)


def register(kit: Path, on_wait: Callable[[float], None]) -> RegistrationChanges:
    """Register the kit's keys at its SuperLink, and unregister the revoked ones.

    Waits for one that was just started; ``on_wait`` is told once, for how many seconds at most.
    """
    with connect_control(kit) as client:
        return _register_with_retries(RegisteredKeys(kit), client, on_wait)


def _register_with_retries(
    keys: RegisteredKeys, client: ControlClient, on_wait: Callable[[float], None]
) -> RegistrationChanges:
    """Wait for the SuperLink's port, and then for its database."""
    for attempt in range(_ATTEMPTS):
        try:
            return _register(keys, client)
        except httpx.ConnectError:
            pass
        except httpx.HTTPStatusError as error:
            if not error.response.is_server_error:
                raise
        if attempt == 0:
            on_wait(_ATTEMPTS * _PAUSE)
        time.sleep(_PAUSE)
    return _register(keys, client)


def _register(keys: RegisteredKeys, client: ControlClient) -> RegistrationChanges:
    known = client.registered_nodes()
    changes = RegistrationChanges()
    # Revoked keys first, so that a readmitted institution never has two nodes of its name.
    for mark, key in keys.revoked().items():
        if node := known.get(public_key_to_bytes(key)):
            client.unregister_node(node.node_id)
            changes.removed[node.name] = mark
    for name in sorted(keys.names()):
        public = keys.required(name)
        key_bytes = public_key_to_bytes(public)
        if key_bytes in known:
            changes.kept[name] = fingerprint(public)
        else:
            client.register_node(key_bytes, name)
            changes.added[name] = fingerprint(public)
    return changes
