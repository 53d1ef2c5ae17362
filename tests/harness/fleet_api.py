"""Flower's own Fleet API in this process, for those who ask it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flwr.common.constant import NOOP_FLWR_AID
from flwr.server.superlink.fleet.grpc_rere.node_auth_server_interceptor import (
    NodeAuthServerInterceptor,
)
from flwr.server.superlink.linkstate import LinkState, LinkStateFactory
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.superlink.cli.flower_superlink import _run_fleet_api_grpc_rere
from flwr.superlink.federation import NoOpFederationManager

from deploy.provision import pki


@contextmanager
def fleet(kits: Path, port: int) -> Iterator[LinkState]:
    """Serve a Fleet API with the kit's certificates; yield its list of nodes."""
    factory = LinkStateFactory(
        FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory()
    )
    names = ("ca.crt", "server.crt", "server.key")
    ca, certificate, key = ((kits / "coordinator" / name).read_bytes() for name in names)
    server = _run_fleet_api_grpc_rere(
        f"127.0.0.1:{port}",
        factory,
        ObjectStoreFactory(),
        True,
        (ca, certificate, key),
        [NodeAuthServerInterceptor(factory)],
    )
    try:
        yield factory.state()
    finally:
        server.stop(None).wait()


def add(state: LinkState, kits: Path, name: str) -> int:
    """Register an institution's key; its node."""
    key = public_key_to_bytes(pki.load_public_key(kits / "coordinator" / "keys" / f"{name}.pub"))
    return state.create_node(NOOP_FLWR_AID, "x", key, 30, name=name)
