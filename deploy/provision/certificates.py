"""The federation's certificate authority and the coordinator's server certificate."""

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from deploy.provision import pki
from deploy.provision.federation_spec import FederationSpec
from deploy.provision.kit_files import KitWriter, private_folder
from deploy.provision.registered_keys import COORDINATOR, PRIVATE
from shared.errors import FedGTError

# Names of the SuperLink on its own machine, and in its compose network.
_INSIDE = ("localhost", "127.0.0.1", "::1", "control")

Authority = tuple[pki.PrivateKey, x509.Certificate]


def make_authority(
    federation: FederationSpec, out: Path, writer: KitWriter, *, renew: bool
) -> Authority:
    """Make the certificate authority, or load the one that exists."""
    private_folder(out / PRIVATE)
    key_file, target = out / PRIVATE / "ca.key", out / COORDINATOR / "ca.crt"
    if not key_file.exists():
        if target.exists():
            raise FedGTError(f"{key_file} is missing: restore it, no other fits {target}")
        writer.write_key(key_file, pki.tls_key_bytes(pki.new_key()))
    key = pki.load_tls_key(key_file)
    if not target.exists():
        made = pki.new_authority(key, federation.name)
        writer.write(target, made.public_bytes(Encoding.PEM))
    certificate = pki.load_certificate(target)
    if certificate.public_key() != key.public_key():
        raise FedGTError(f"{target} does not belong to {key_file}: restore the one or the other")
    if renew and pki.days_left(certificate) < federation.certificate_days:
        # The same name and key: certificates that it signed stay valid.
        certificate = pki.new_authority(key, federation.name)
        writer.write(target, certificate.public_bytes(Encoding.PEM))
        writer.notes.append("ca.crt is new: every institution needs it")
    return key, certificate


def make_server_certificate(
    federation: FederationSpec, out: Path, authority: Authority, writer: KitWriter, *, renew: bool
) -> str:
    """Make the server's key and certificate where needed; return the day it ends."""
    folder, coordinator = out / COORDINATOR, federation.coordinator
    hosts = (coordinator.fleet.host, *coordinator.also, *_INSIDE)
    if not (folder / "server.key").exists():
        writer.write_key(folder / "server.key", pki.tls_key_bytes(pki.new_key()))
    key = pki.load_tls_key(folder / "server.key")
    target = folder / "server.crt"
    certificate = pki.load_certificate(target) if target.exists() else None
    if (
        certificate is None
        or renew
        or certificate.public_key() != key.public_key()
        or not pki.covers(certificate, hosts)
        or not pki.is_signed_by(certificate, authority[1])
    ):
        days = federation.certificate_days
        certificate = pki.new_server_certificate(key.public_key(), hosts, authority, days)
        writer.write(target, certificate.public_bytes(Encoding.PEM))
    if (left := pki.days_left(certificate)) < pki.WARN_DAYS:
        writer.notes.append(f"the server's certificate ends in {left:.0f} days: add --renew")
    return f"{certificate.not_valid_after_utc:%Y-%m-%d}"
