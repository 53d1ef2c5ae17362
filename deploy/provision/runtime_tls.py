"""A certificate for the runtime API of a supernode, made anew whenever it starts."""

from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from deploy.flower.supernode import RuntimeTLS
from deploy.provision import pki
from deploy.provision.kit_files import private_folder, write_secret


def make_runtime_tls(folder: Path, host: str) -> RuntimeTLS:
    """Write key and certificates for a server at ``host`` to ``folder``."""
    private_folder(folder)
    authority_key, key = pki.new_key(), pki.new_key()
    authority = pki.new_authority(authority_key, "runtime API")
    certificate = pki.new_server_certificate(
        key.public_key(), [host], (authority_key, authority), pki.CA_DAYS
    )
    contents = {
        "ca.crt": authority.public_bytes(Encoding.PEM),
        "server.crt": certificate.public_bytes(Encoding.PEM),
        "server.key": pki.tls_key_bytes(key),
    }
    for name, content in contents.items():
        (folder / name).unlink(missing_ok=True)
        write_secret(folder / name, content)
    paths = (str((folder / name).absolute()) for name in contents)
    return RuntimeTLS(*paths)
