"""All of Flower's internals that deploy uses, so that a new Flower release breaks this file alone.

``flwr.app``, ``flwr.clientapp`` and ``flwr.serverapp`` are public and imported where needed. Slow
imports stand inside the functions that need them.
"""

import hashlib
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

import grpc
import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Message, UserConfig
from flwr.client.grpc_rere_client.node_auth_client_interceptor import NodeAuthClientInterceptor
from flwr.common.constant import SUPERLINK_NODE_ID, Status, SubStatus
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StreamLogsRequest,
    UnregisterNodeRequest,
)
from flwr.proto.fleet_pb2 import ActivateNodeRequest
from flwr.proto.fleet_pb2_grpc import FleetStub
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.fab import Fab
from flwr.supercore.grpc import create_channel
from flwr.supercore.interceptors import (
    RuntimeVersionClientInterceptor,
    RuntimeVersionHttpInterceptor,
)
from flwr.supercore.primitives.asymmetric import public_key_to_bytes, uses_nist_ec_curve
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.supercore.version import package_version

from shared.errors import FedGTError

__all__ = ["FLOWER_VERSION", "NodeInfo", "Run", "public_key_to_bytes", "uses_nist_ec_curve"]

FLOWER_VERSION: str = package_version

_UNREGISTERED = "unregistered"
# Flower refuses an interval of 0, but only after it has found the key: so the question changes
# nothing at the coordinator, and does not disturb a supernode that is connected.
_NO_HEARTBEAT = 0.0


# --- programs and app bundle ------------------------------------------------------------------


def run_supernode() -> None:
    """Run ``flower-supernode`` with the options of this process."""
    from flwr.supernode.cli import flower_supernode

    flower_supernode()


def build_app_bundle(folder: Path) -> bytes:
    """Return the Flower App Bundle (FAB) of the app in ``folder``."""
    from flwr.cli.build import build_fab_from_disk

    return build_fab_from_disk(folder)


# --- messages in this process -----------------------------------------------------------------


def identify_as_superlink(run_id: int) -> None:
    """Set the identity that Flower's runtime gives to every process that creates messages."""
    TaskIdentity.run_id, TaskIdentity.node_id = run_id, SUPERLINK_NODE_ID
    TaskIdentity.task_id = 0


def assign_message_id(message: Message) -> str:
    """Give a message the random id that the SuperLink would give it, and return it."""
    message_id = str(uuid4())
    message.metadata.__dict__["_message_id"] = message_id
    return message_id


# --- control API of the coordinator's own SuperLink -------------------------------------------


@dataclass(frozen=True)
class RunState:
    """The state of a run in Flower's terms."""

    status: str
    sub_status: str
    details: str

    @property
    def is_completed(self) -> bool:
        """Whether the ServerApp ran to its end without an exception."""
        return self.status == Status.FINISHED and self.sub_status == SubStatus.COMPLETED


@dataclass(frozen=True)
class RegisteredNode:
    """A supernode that the SuperLink knows by its public key."""

    node_id: int
    name: str


class ControlClient:
    """The requests that FedGT sends to a SuperLink's control API."""

    def __init__(self, client: ControlHttpClient) -> None:
        self._client = client

    def start_run(self, bundle: bytes, run_config: UserConfig) -> int:
        """Start a run of an app bundle; return its id."""
        fab = Fab(hashlib.sha256(bundle).hexdigest(), bundle, {})
        response = self._client.StartRun(
            StartRunRequest(fab=fab_to_proto(fab), override_config=user_config_to_proto(run_config))
        )
        if not response.HasField("run_id"):
            raise FedGTError(f"the SuperLink did not start the run: {response.note or 'no reason'}")
        return int(response.run_id)

    def stream_log(self, run_id: int) -> Iterator[str]:
        """Yield the log of a run in parts until the run ends."""
        for part in self._client.StreamLogs(StreamLogsRequest(run_id=run_id)):
            yield part.log_output

    def run_state(self, run_id: int) -> RunState:
        """Return the state of a run."""
        found = self._client.ListRuns(ListRunsRequest(run_id=run_id)).run_dict[run_id].status
        return RunState(found.status, found.sub_status, found.details)

    def registered_nodes(self) -> dict[bytes, RegisteredNode]:
        """Return all registered nodes by the bytes of their public key."""
        nodes = self._client.ListNodes(ListNodesRequest()).nodes_info
        return {
            node.public_key: RegisteredNode(node.node_id, node.name)
            for node in nodes
            if node.status != _UNREGISTERED
        }

    def register_node(self, public_key: bytes, name: str) -> None:
        """Let the holder of a key connect under ``name``."""
        self._client.RegisterNode(RegisterNodeRequest(public_key=public_key, name=name))

    def unregister_node(self, node_id: int) -> None:
        """Refuse a node's key from now on."""
        self._client.UnregisterNode(UnregisterNodeRequest(node_id=node_id))


@contextmanager
def connect_control(kit: Path) -> Iterator[ControlClient]:
    """Yield a connection to the SuperLink of a coordinator's kit.

    Raises
    ------
    FedGTError
        When the SuperLink cannot be reached or refuses a request, also within the block.
    """
    try:
        facts = tomllib.loads((kit / "control.toml").read_text())
        # Containers reach the SuperLink under another name than the machine they are on.
        address = os.environ.get("FEDGT_CONTROL") or str(facts["control"])
        root = (kit / "ca.crt").read_bytes()
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError):
        raise FedGTError(f"{kit} is not a coordinator's kit: name its folder") from None
    version = RuntimeVersionHttpInterceptor(component_name="flwr CLI")
    client = ControlHttpClient.from_server_address(address, False, root, [version])
    try:
        yield ControlClient(client)
    except httpx.HTTPStatusError as error:
        raise FedGTError(f"the SuperLink at {address} refuses: {_response_text(error)}") from None
    except httpx.TransportError as error:
        reason = f" ({error})" if str(error) else ""
        raise FedGTError(
            f"no SuperLink answers at {address}{reason}: run ./start-superlink.sh first"
        ) from None
    finally:
        client.close()


def _response_text(error: httpx.HTTPStatusError) -> str:
    try:
        text = error.response.text
    except httpx.ResponseNotRead:
        text = ""
    return " ".join(text.split()) or error.response.reason_phrase


# --- Fleet API, as a supernode uses it --------------------------------------------------------


class Admission(StrEnum):
    """What the SuperLink answers to a supernode's key."""

    known = "known"
    unknown = "unknown"  # or revoked
    clocks_differ = "clocks differ"
    refused = "refused"  # for another reason


def ask_admission(
    address: str, root_certificates: bytes, key: ec.EllipticCurvePrivateKey, timeout: float
) -> tuple[Admission, str]:
    """Ask the Fleet API, like a supernode, whether it knows ``key``; also return its message."""
    channel = create_channel(
        address,
        insecure=False,
        root_certificates=root_certificates,
        interceptors=[
            RuntimeVersionClientInterceptor(component_name="SuperNode"),
            NodeAuthClientInterceptor(key, key.public_key()),
        ],
    )
    request = ActivateNodeRequest(
        public_key=public_key_to_bytes(key.public_key()), heartbeat_interval=_NO_HEARTBEAT
    )
    with channel:
        try:
            FleetStub(channel).ActivateNode(request, timeout=timeout)
        except grpc.RpcError as error:
            return _admission(error.code(), error.details() or "")
    return Admission.known, ""


def _admission(status: grpc.StatusCode, details: str) -> tuple[Admission, str]:
    error = FlowerError.from_json(details)
    message = " ".join((error.message if error else details or status.name).split())
    if error and error.code == ApiErrorCode.FLEET_INVALID_HEARTBEAT_INTERVAL:
        return Admission.known, message
    if error and error.code == ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED:
        return Admission.unknown, message
    if status is grpc.StatusCode.UNAUTHENTICATED and "timestamp" in details:
        return Admission.clocks_differ, message
    return Admission.refused, message
