"""Fleet API, as a supernode uses it."""

from dataclasses import dataclass
from enum import StrEnum

import grpc
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.client.grpc_rere_client.node_auth_client_interceptor import NodeAuthClientInterceptor
from flwr.proto.fleet_pb2 import ActivateNodeRequest
from flwr.proto.fleet_pb2_grpc import FleetStub
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.grpc import create_channel
from flwr.supercore.interceptors import RuntimeVersionClientInterceptor

from deploy.flower import public_key_to_bytes
from shared.text import plain_line

# FedGT's SuperLink takes an interval of 0 for the doctor's question. Flower's own refuses it, but
# only after it has found the key. Neither disturbs a supernode that is connected.
NO_HEARTBEAT = 0.0
# The header of the answer: since when, and from where, a supernode with this key is connected.
CONNECTED = "fedgt-connected"
_LONGEST = 200  # characters of what the coordinator says


def clock_text(ahead: float) -> str:
    """Say how a clock differs from another, by the seconds that it is ahead of it."""
    return f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'}"


class Admission(StrEnum):
    """What the SuperLink answers to a supernode's key."""

    known = "known"
    unknown = "unknown"  # or revoked
    clocks_differ = "clocks differ"
    refused = "refused"  # for another reason


@dataclass(frozen=True)
class Answer:
    """What the Fleet API answers to a key."""

    admission: Admission
    message: str = ""
    connected: str = ""  # since when and from where a supernode with this key is; empty: none


def ask_admission(
    address: str, root_certificates: bytes, key: ec.EllipticCurvePrivateKey, timeout: float
) -> Answer:
    """Ask the Fleet API, like a supernode, whether it knows ``key``."""
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
        public_key=public_key_to_bytes(key.public_key()), heartbeat_interval=NO_HEARTBEAT
    )
    with channel:
        try:
            _, call = FleetStub(channel).ActivateNode.with_call(request, timeout=timeout)
        except grpc.RpcError as error:
            return Answer(*_admission(error.code(), error.details() or ""))
        headers = dict(call.trailing_metadata() or ())
    return Answer(Admission.known, connected=plain_line(str(headers.get(CONNECTED, "")), _LONGEST))


def _admission(status: grpc.StatusCode, details: str) -> tuple[Admission, str]:
    error = FlowerError.from_json(details)
    message = " ".join((error.message if error else details or status.name).split())
    if error and error.code == ApiErrorCode.FLEET_INVALID_HEARTBEAT_INTERVAL:
        return Admission.known, message
    if error and error.code == ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED:
        return Admission.unknown, message
    if status is grpc.StatusCode.UNAUTHENTICATED and "timestamp" in details:
        # Without a word from Flower's own SuperLink.
        return Admission.clocks_differ, plain_line(message.partition(": ")[2], _LONGEST)
    return Admission.refused, message
