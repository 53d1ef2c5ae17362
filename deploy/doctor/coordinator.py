"""Checks of the coordinator's kit: keys, certificates, ports, clock, disk."""

import ctypes
import shutil
import socket
import ssl
import stat
from collections.abc import Callable
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from deploy.approval.approved_code import installed_hash
from deploy.doctor.check import Check, failed, ok, warning
from deploy.doctor.kit import CoordinatorKit
from deploy.engines.ports import why_not_free
from deploy.operator_secret import OPERATOR_SECRET, read_operator_secret
from deploy.provision.federation_spec import Address
from deploy.provision.kit_files import PRIVATE_FILE
from deploy.provision.pki import (
    WARN_DAYS,
    days_left,
    general_names,
    is_signed_by,
    load_certificate,
    load_tls_key,
)
from deploy.provision.registered_keys import RegisteredKeys
from shared.errors import FedGTError

PROGRAMS = ("fedgt-superlink", "flwr-serverapp", "flwr")

_TIMEOUT = 5.0  # seconds
_GIB = 1 << 30
_ROOM = 2 * _GIB  # messages under way, and three checkpoints
_TIME_ERROR = 5  # of adjtimex(2): nothing sets this clock
_RENEW = "renew it where the kits were made (fedgt provision … --renew), and copy it here"


def check_keys(kit: CoordinatorKit) -> Check:
    """Check that institutions' keys are there, and name their owners."""
    try:
        names = sorted(RegisteredKeys(kit.folder).names())
    except FedGTError as error:
        return failed("keys", str(error), "copy keys/ again from where the kits were made")
    if not names:
        return failed("keys", "keys/ is empty", "copy this kit again: nobody could connect")
    return ok("keys", ", ".join(names))


def check_code(_: CoordinatorKit) -> Check:
    """Show the code that runs are started with; institutions compare it with theirs."""
    return ok("code", f"{installed_hash()} is installed")


def check_operator(kit: CoordinatorKit) -> Check:
    """Check that the operator's secret is there and readable by its owner alone."""
    try:
        read_operator_secret(kit.folder / OPERATOR_SECRET)
    except (FedGTError, OSError) as error:
        remedy = "make it private, or copy it again from where the kits were made"
        return failed("operator", str(error), remedy)
    return ok("operator", f"{OPERATOR_SECRET} is readable by its owner alone")


def check_server_key(kit: CoordinatorKit) -> Check:
    """Check that the server's private key is there and readable by its owner alone."""
    source = kit.folder / "server.key"
    try:
        mode = stat.S_IMODE(source.stat().st_mode)
        if mode & ~PRIVATE_FILE:
            finding = f"others may read it (mode {mode:04o})"
            return failed("server.key", finding, f"chmod 600 {source}")
        load_tls_key(source)
    except (FedGTError, OSError) as error:
        return failed("server.key", _reason(error), "copy it again from where the kits were made")
    return ok("server.key", "readable by its owner alone")


def check_authority(kit: CoordinatorKit) -> Check:
    """Check the certificate that institutions verify the server's with."""
    return _check_dates(kit, "ca.crt", lambda _: None)


def check_certificate(kit: CoordinatorKit) -> Check:
    """Check that the server's certificate is signed, for this key and address, and in time."""
    return _check_dates(kit, "server.crt", lambda certificate: _problem(kit, certificate))


def _problem(kit: CoordinatorKit, certificate: x509.Certificate) -> str | None:
    if not is_signed_by(certificate, load_certificate(kit.folder / "ca.crt")):
        return "ca.crt did not sign it"
    if certificate.public_key() != load_tls_key(kit.folder / "server.key").public_key():
        return "it belongs to another server.key"
    named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if not set(general_names([kit.address.host])) <= set(named):
        return f"it does not name {kit.address.host}, which institutions dial"
    return None


def _check_dates(
    kit: CoordinatorKit, name: str, problem: Callable[[x509.Certificate], str | None]
) -> Check:
    try:
        certificate = load_certificate(kit.folder / name)
        found = problem(certificate)
    except (FedGTError, OSError) as error:
        return failed(name, _reason(error), "copy it again from where the kits were made")
    if found:
        return failed(name, found, _RENEW)
    end, left = f"{certificate.not_valid_after_utc:%Y-%m-%d}", days_left(certificate)
    if left < 0:
        return failed(name, f"it ended on {end}", _RENEW)
    if certificate.not_valid_before_utc > datetime.now(UTC):
        return failed(name, "by this clock it is not valid yet", "set this machine's clock (NTP)")
    if left < WARN_DAYS:
        return warning(name, f"it ends on {end}", _RENEW)
    return ok(name, f"until {end}")


def check_clock(_: CoordinatorKit) -> Check:
    """Check that something keeps the clock right: institutions are refused by it."""
    now = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
    try:
        unset = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512)) == _TIME_ERROR
    except (OSError, AttributeError):  # not Linux
        return ok("clock", f"{now}, to be compared with another")
    if unset:
        remedy = "have NTP set it: institutions 5 s ahead of it are refused"
        return warning("clock", f"{now}, and nothing says that it is right", remedy)
    return ok("clock", f"{now}, kept right")


def check_room(kit: CoordinatorKit) -> Check:
    """Check the disk space for the SuperLink's database and checkpoints."""
    free = shutil.disk_usage(kit.folder).free
    finding = f"{free / _GIB:.1f} GiB free"
    if free < _ROOM:
        return failed("disk", finding, f"make room: {_ROOM / _GIB:.0f} GiB are needed")
    return ok("disk", finding)


def check_fleet(kit: CoordinatorKit) -> Check:
    """Check that the Fleet port is free, or our SuperLink's with the certificate in this kit."""
    name, listening = "fleet port", _reachable(kit.listen)
    shown = _certificate_at(listening, kit)
    if isinstance(shown, x509.Certificate):
        own = load_certificate(kit.folder / "server.crt")
        if shown.public_bytes(Encoding.DER) != own.public_bytes(Encoding.DER):
            finding = f"{kit.listen} shows another certificate than server.crt"
            return failed(name, finding, "restart start-superlink.sh")
        return ok(name, f"{kit.listen} answers, with server.crt")
    return _free(name, kit.listen) if shown is None else failed(name, *shown)


def check_control(kit: CoordinatorKit) -> Check:
    """Check that the control API is on loopback, free or ours, and closed to the outside."""
    shown = _certificate_at(kit.control, kit)
    if shown is None:
        return _free("control", kit.control)
    if not isinstance(shown, x509.Certificate):
        return failed("control", *shown)
    if (outside := _outward_address()) and _accepts(Address(host=outside, port=kit.control.port)):
        remedy = "end what listens there: anyone who reaches it can run code at every institution"
        return failed("control", f"{outside}:{kit.control.port} answers too", remedy)
    return ok("control", f"{kit.control} answers, to this machine alone")


def _certificate_at(
    address: Address, kit: CoordinatorKit
) -> x509.Certificate | tuple[str, str] | None:
    """Return a TLS server's certificate; finding and remedy if not ours; None if none listens."""
    try:
        context = ssl.create_default_context(cafile=str(kit.folder / "ca.crt"))
        context.set_alpn_protocols(["h2", "http/1.1"])
        with (
            socket.create_connection((address.host, address.port), _TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=address.host) as secure,
        ):
            return x509.load_der_x509_certificate(secure.getpeercert(binary_form=True) or b"")
    except ssl.SSLCertVerificationError as error:
        return f"{address}: {error.verify_message}", _RENEW
    except ConnectionRefusedError:
        return None
    except (ssl.SSLError, OSError) as error:
        return f"{address} is not our SuperLink ({error})", "end what uses this port"


def _free(name: str, address: Address) -> Check:
    if reason := why_not_free(address.host, address.port):
        remedy = "name another in federation.toml, or end what uses it"
        return failed(name, f"{address} cannot be used ({reason})", remedy)
    remedy = "start it when you are ready: ./start-superlink.sh"
    return warning(name, f"{address} is free: the coordinator is not running", remedy)


def _reachable(listen: Address) -> Address:
    """Return the address at which this machine reaches what listens on ``listen``."""
    own = {"0.0.0.0": "127.0.0.1", "::": "::1"}
    return Address(host=own.get(listen.host, listen.host), port=listen.port)


def _outward_address() -> str | None:
    """Return this machine's address on the way out; nothing is sent to find it."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # of documentation, nobody's
            host: str = probe.getsockname()[0]
    except OSError:
        return None
    return None if host.startswith("127.") else host


def _accepts(address: Address) -> bool:
    try:
        socket.create_connection((address.host, address.port), _TIMEOUT).close()
    except OSError:
        return False
    return True


def _reason(error: Exception) -> str:
    return "it is missing" if isinstance(error, FileNotFoundError) else str(error)
