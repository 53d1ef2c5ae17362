"""Damaged keys and certificates that fuzzing found."""

import base64
import struct
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from deploy.provision import pki
from shared.errors import FedGTError

_TYPE = b"ecdsa-sha2-nistp384"


def string(content: bytes) -> bytes:
    """Return a string of the SSH protocol (RFC 4251)."""
    return struct.pack(">I", len(content)) + content


PUBLIC = string(_TYPE) + string(b"nistp384") + string(b"")  # a point of no bytes


def test_a_public_key_without_a_point_is_named(tmp_path: Path) -> None:
    source = tmp_path / "bank-a.pub"
    source.write_bytes(_TYPE + b" " + base64.b64encode(PUBLIC))
    with pytest.raises(FedGTError, match="not a public key in OpenSSH format"):
        pki.load_public_key(source)


def test_a_private_key_without_a_point_is_named(tmp_path: Path) -> None:
    # PROTOCOL.key of OpenSSH: no cipher, one key, two equal check numbers, padded to 8 bytes.
    private = struct.pack(">II", 1, 1) + PUBLIC + string(b"\x01") + string(b"")
    private += bytes(range(1, 1 + -len(private) % 8))
    parts = [string(b"none"), string(b"none"), string(b""), struct.pack(">I", 1), string(PUBLIC)]
    content = base64.encodebytes(b"openssh-key-v1\0" + b"".join(parts) + string(private))
    name = b"OPENSSH PRIVATE KEY-----\n"
    source = tmp_path / "node.key"
    source.write_bytes(b"-----BEGIN " + name + content + b"-----END " + name)
    with pytest.raises(FedGTError, match="not an unencrypted private key in OpenSSH format"):
        pki.load_node_key(source)


def test_a_certificate_of_an_unknown_version_is_named(tmp_path: Path) -> None:
    sound = pki.new_authority(pki.new_key(), "demo").public_bytes(Encoding.DER)
    version = bytes([0xA0, 3, 2, 1])  # the explicit tag 0, and in it an integer
    assert sound.count(version + b"\x02") == 1
    spoilt = sound.replace(version + b"\x02", version + b"\x0a")
    text = base64.encodebytes(spoilt)
    source = tmp_path / "ca.crt"
    source.write_bytes(b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n")
    with pytest.raises(FedGTError, match="not a certificate in PEM format"):
        pki.load_certificate(source)
