"""Fleet API, as a supernode uses it."""

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

# Flower refuses an interval of 0, but only after it has found the key: so the question changes
# nothing at the coordinator, and does not disturb a supernode that is connected.
_NO_HEARTBEAT = 0.0


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
