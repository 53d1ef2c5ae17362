"""Checks that need the coordinator: reachable port, trusted certificate, known key."""

import socket
import ssl
from datetime import UTC, datetime, timedelta

from cryptography import x509

from deploy.doctor.check import Check, State, failed, ok, skipped, warning
from deploy.doctor.kit import InstitutionKit
from deploy.flower.fleet import Admission, ask_admission
from deploy.provision.pki import WARN_DAYS, load_node_key
from deploy.supernode_record import flower_folder, running_supernode
from shared.errors import FedGTError

_TIMEOUT = 10.0  # seconds


def check_network(kit: InstitutionKit) -> list[Check]:
    """Check port, certificate and key, each only if the one before it is in order."""
    port = check_port(kit)
    if port.state is State.failed:
        return [port, skipped("tls", "no connection"), skipped("admission", "no connection")]
    tls = check_tls(kit)
    if tls.state is State.failed:
        return [port, tls, skipped("admission", "no trusted connection")]
    return [port, tls, check_admission(kit)]


def check_port(kit: InstitutionKit) -> Check:
    """Check that something listens at the coordinator's address."""
    address = kit.coordinator
    try:
        socket.create_connection((address.host, address.port), _TIMEOUT).close()
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
    """Check that the coordinator has a valid certificate of this federation for this address."""
    address = kit.coordinator
    try:
        context = ssl.create_default_context(cafile=str(kit.folder / "ca.crt"))
        context.set_alpn_protocols(["h2"])
        with (
            socket.create_connection((address.host, address.port), _TIMEOUT) as plain,
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
    """Check that the SuperLink knows this institution's key."""
    name = "admission"
    try:
        key = load_node_key(kit.folder / "node.key")
    except (FedGTError, OSError):
        return skipped(name, "no usable key")
    root_certificates = (kit.folder / "ca.crt").read_bytes()
    answer = ask_admission(str(kit.coordinator), root_certificates, key, _TIMEOUT)
    match answer.admission:
        case Admission.known:
            return _connection(kit, answer.connected)
        case Admission.unknown:
            remedy = "send node.pub to the coordinator, who then runs register.sh"
            return failed(name, "the coordinator does not know this key, or revoked it", remedy)
        case Admission.clocks_differ:
            by = f": {answer.message}" if answer.message else ""
            remedy = "have NTP set this machine's clock, or the coordinator's where that is wrong"
            return failed(name, f"the clocks differ too much{by}", remedy)
        case Admission.refused:
            remedy = "ask the coordinator; flwr must have the same version on both sides"
            return failed(name, f"the coordinator answers: {answer.message}", remedy)


def _connection(kit: InstitutionKit, connected: str) -> Check:
    """Say whether a supernode with this key is connected, and whether it is this kit's."""
    name, known = "admission", "the coordinator knows this key"
    if not connected:
        return ok(name, known)
    own = running_supernode(flower_folder(kit.folder))
    if own and own.connected:
        return ok(name, f"{known}; this supernode is connected {connected}")
    return warning(
        name,
        f"another supernode with this key is connected, {connected}",
        "wait a minute if that was this machine's own and it was killed; if it is not yours, ask "
        f"the coordinator for a new key: 'fedgt provision revoke {kit.institution}', then "
        f"'fedgt provision federation.toml --readmit {kit.institution}' and ./register.sh",
    )
