"""What only the coordinator can answer: is it there, is it who it should be, does it know us."""

import socket
import ssl
from datetime import UTC, datetime, timedelta

import grpc
from cryptography import x509
from flwr.client.grpc_rere_client.node_auth_client_interceptor import NodeAuthClientInterceptor
from flwr.proto.fleet_pb2 import ActivateNodeRequest
from flwr.proto.fleet_pb2_grpc import FleetStub
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.grpc import create_channel
from flwr.supercore.interceptors import RuntimeVersionClientInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from deploy.doctor.check import Check, State, failed, ok, skipped, warning
from deploy.doctor.kit import InstitutionKit
from deploy.provision.pki import WARN_DAYS, load_node_key
from shared.errors import FedGTError

_PATIENCE = 10.0  # seconds
# Flower refuses an interval of 0, but only after it has found the key: so the question changes
# nothing at the coordinator, and does not disturb a supernode that is connected.
_NO_HEARTBEAT = 0.0


def check_network(kit: InstitutionKit) -> list[Check]:
    """Port, certificate, key: each only where the one before it is well."""
    port = check_port(kit)
    if port.state is State.failed:
        return [port, skipped("tls", "no connection"), skipped("admission", "no connection")]
    tls = check_tls(kit)
    if tls.state is State.failed:
        return [port, tls, skipped("admission", "no trusted connection")]
    return [port, tls, check_admission(kit)]


def check_port(kit: InstitutionKit) -> Check:
    """Whether anything listens at the coordinator's address."""
    address = kit.coordinator
    try:
        socket.create_connection((address.host, address.port), _PATIENCE).close()
    except socket.gaierror as error:
        remedy = "check the name with the coordinator, and this machine's DNS"
        return failed("port", f"{address.host} is not known here ({error.strerror})", remedy)
    except ConnectionRefusedError:
        remedy = "ask the coordinator whether start-superlink.sh runs"
        return failed("port", f"{address} refuses connections", remedy)
    except OSError as error:
        remedy = "ask for the way to it (TCP) to be opened in the firewalls of both sides"
        return failed("port", f"{address} does not answer ({error})", remedy)
    return ok("port", f"{address} answers")


def check_tls(kit: InstitutionKit) -> Check:
    """Whether the coordinator shows a certificate of this federation, for this address, in time."""
    address = kit.coordinator
    try:
        context = ssl.create_default_context(cafile=str(kit.folder / "ca.crt"))
        context.set_alpn_protocols(["h2"])
        with (
            socket.create_connection((address.host, address.port), _PATIENCE) as plain,
            context.wrap_socket(plain, server_hostname=address.host) as secure,
        ):
            shown = secure.getpeercert(binary_form=True) or b""
    except ssl.SSLCertVerificationError as error:
        return failed("tls", f"the certificate is refused: {error.verify_message}", _remedy(error))
    except (ssl.SSLError, OSError) as error:
        remedy = "ask the coordinator whether this port is its SuperLink's, with TLS"
        return failed("tls", f"no TLS at {address} ({error})", remedy)
    certificate = x509.load_der_x509_certificate(shown)
    end = certificate.not_valid_after_utc
    if end - datetime.now(UTC) < timedelta(days=WARN_DAYS):
        remedy = "ask the coordinator to renew it (fedgt provision … --renew)"
        return warning("tls", f"the coordinator's certificate ends on {end:%Y-%m-%d}", remedy)
    return ok("tls", f"the coordinator's certificate is good until {end:%Y-%m-%d}")


def _remedy(error: ssl.SSLCertVerificationError) -> str:
    message = error.verify_message.lower()
    if "expired" in message:
        return "ask the coordinator to renew it (--renew), or set this machine's clock"
    if "not yet valid" in message:
        return "set this machine's clock"
    if "mismatch" in message or "not valid for" in message:
        return "ask the coordinator to name this address in federation.toml (coordinator.also)"
    return "ask the coordinator for its ca.crt: this kit is of another federation, or old"


def check_admission(kit: InstitutionKit) -> Check:
    """Whether the SuperLink knows this institution's key, asked over gRPC as a supernode would."""
    name = "admission"
    try:
        key = load_node_key(kit.folder / "node.key")
    except (FedGTError, OSError):
        return skipped(name, "no usable key")
    channel = create_channel(
        str(kit.coordinator),
        insecure=False,
        root_certificates=(kit.folder / "ca.crt").read_bytes(),
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
            FleetStub(channel).ActivateNode(request, timeout=_PATIENCE)
        except grpc.RpcError as error:
            return _admission(name, error.code(), error.details() or "")
    return ok(name, "the coordinator knows this key")


def _admission(name: str, status: grpc.StatusCode, details: str) -> Check:
    fault = FlowerError.from_json(details)
    if fault and fault.code == ApiErrorCode.FLEET_INVALID_HEARTBEAT_INTERVAL:
        return ok(name, "the coordinator knows this key")
    if fault and fault.code == ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED:
        remedy = "send node.pub to the coordinator, who then runs register.sh"
        return failed(name, "the coordinator does not know this key, or revoked it", remedy)
    if status is grpc.StatusCode.UNAUTHENTICATED and "timestamp" in details:
        return failed(name, "the clocks differ too much", "set this machine's clock (NTP)")
    text = " ".join((fault.message if fault else details or status.name).split())
    remedy = "ask the coordinator; flwr must have the same version on both sides"
    return failed(name, f"the coordinator answers: {text}", remedy)
