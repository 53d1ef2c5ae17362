"""Keys and certificates, as bytes.

Node keys are ECDSA on P-384 in OpenSSH's format, which is what ``flower-supernode`` and ``flwr
supernode register`` read. The certificate authority signs one certificate, the coordinator's.
"""

import base64
import hashlib
import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from deploy.flower import uses_nist_ec_curve
from shared.errors import FedGTError

PrivateKey = ec.EllipticCurvePrivateKey
PublicKey = ec.EllipticCurvePublicKey

CA_DAYS = 3650
WARN_DAYS = 30  # before a certificate ends
# Clocks differ: a certificate made now must not lie in another machine's future.
_BACKDATED = timedelta(hours=1)
# What the library raises of bytes that are no key or certificate; fuzzing found the last two.
_UNREADABLE = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    NotImplementedError,
    IndexError,
    x509.InvalidVersion,
)


def new_key() -> PrivateKey:
    """Generate a key on P-384."""
    return ec.generate_private_key(ec.SECP384R1())


def node_key_bytes(key: PrivateKey) -> bytes:
    """Return a private key as OpenSSH writes it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())


def tls_key_bytes(key: PrivateKey) -> bytes:
    """Return a private key as TLS servers read it."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_line(key: PublicKey, comment: str) -> bytes:
    """Return a public key as a line of OpenSSH."""
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH) + f" {comment}\n".encode()


def fingerprint(key: PublicKey) -> str:
    """Return the digest that people compare by telephone, as ``ssh-keygen -lf`` prints it."""
    blob = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1]
    digest = hashlib.sha256(base64.b64decode(blob)).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def load_node_key(source: Path) -> PrivateKey:
    """Load a supernode's private key, with the loader and checks of ``flower-supernode``."""
    try:
        key = load_ssh_private_key(source.read_bytes(), None)
    except _UNREADABLE:
        raise FedGTError(
            f"{source} is not an unencrypted private key in OpenSSH format: "
            "make one with 'fedgt provision key'"
        ) from None
    if not isinstance(key, PrivateKey):
        raise FedGTError(f"{source} is not an ECDSA key: make one with 'fedgt provision key'")
    return key


def load_public_key(source: Path) -> PublicKey:
    """Load a supernode's public key, with the checks of ``flwr supernode register``."""
    try:
        content = source.read_bytes()
    except FileNotFoundError:
        raise FedGTError(f"{source}: no such file") from None
    if b"PRIVATE KEY" in content:
        raise FedGTError(
            f"{source} holds a private key, which should not have left its institution: "
            "ask for a new pair and its public half"
        )
    try:
        key = load_ssh_public_key(content)
    except _UNREADABLE:
        raise FedGTError(f"{source} is not a public key in OpenSSH format") from None
    if not isinstance(key, PublicKey) or not uses_nist_ec_curve(key):
        raise FedGTError(
            f"{source} is not an ECDSA key on P-256, P-384 or P-521: Flower takes no other"
        )
    return key


def load_tls_key(source: Path) -> PrivateKey:
    """Load the key of the authority or the server."""
    try:
        key = load_pem_private_key(source.read_bytes(), None)
    except _UNREADABLE:
        key = None
    if not isinstance(key, PrivateKey):
        raise FedGTError(
            f"{source} is not an EC private key in PEM format: restore it from a backup"
        )
    return key


def load_certificate(source: Path) -> x509.Certificate:
    """Load a certificate in PEM format."""
    try:
        return x509.load_pem_x509_certificate(source.read_bytes())
    except _UNREADABLE:
        raise FedGTError(f"{source} is not a certificate in PEM format") from None


def new_authority(key: PrivateKey, federation: str) -> x509.Certificate:
    """Make the federation's own root, which signs nothing but the coordinator's certificate."""
    name = _common_name(f"FedGT {federation} CA")
    start = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _BACKDATED)
        .not_valid_after(start + timedelta(days=CA_DAYS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )


def new_server_certificate(
    key: PublicKey,
    hosts: Iterable[str],
    authority: tuple[PrivateKey, x509.Certificate],
    days: int,
) -> x509.Certificate:
    """Make a certificate of a server with the names ``hosts``, valid no longer than the CA's."""
    ca_key, ca = authority
    start = datetime.now(UTC)
    names = general_names(hosts)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(str(names[0].value)))
        .issuer_name(ca.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _BACKDATED)
        .not_valid_after(min(start + timedelta(days=days), ca.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(issuer, critical=False)
        .sign(ca_key, hashes.SHA384())
    )


def general_names(hosts: Iterable[str]) -> list[x509.DNSName | x509.IPAddress]:
    """Return hosts as a certificate names them, each once: gRPC compares IPs with IPs only."""
    names: list[x509.DNSName | x509.IPAddress] = []
    for host in hosts:
        try:
            name: x509.DNSName | x509.IPAddress = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host.lower())
        if name not in names:
            names.append(name)
    return names


def covers(certificate: x509.Certificate, hosts: Iterable[str]) -> bool:
    """Tell whether a certificate names exactly ``hosts``."""
    found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(found) == set(general_names(hosts))


def is_signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    """Tell whether ``issuer`` signed ``certificate``."""
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def days_left(certificate: x509.Certificate) -> float:
    """Return the days until a certificate ends; negative after."""
    return (certificate.not_valid_after_utc - datetime.now(UTC)) / timedelta(days=1)


def _common_name(name: str) -> x509.Name:
    # X.509 has room for 64 characters; verification looks at the alternative names.
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
