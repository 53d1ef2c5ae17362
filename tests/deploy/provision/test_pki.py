import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from deploy.provision import pki
from shared.errors import FedGTError

VERSION_3 = bytes.fromhex("a003020102")  # the first field of a certificate


def test_a_certificate_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    made = pki.new_authority(pki.new_key(), "demo").public_bytes(Encoding.DER)
    assert made.count(VERSION_3) == 1
    forged = base64.b64encode(made.replace(VERSION_3, VERSION_3[:-1] + b"\x0a")).decode()
    path = tmp_path / "ca.crt"
    path.write_text(f"-----BEGIN CERTIFICATE-----\n{forged}\n-----END CERTIFICATE-----\n")
    with pytest.raises(FedGTError, match=r"ca\.crt is not a certificate in PEM format"):
        pki.load_certificate(path)
