"""The operator's secret: private, whole, and new in every federation."""

from pathlib import Path

import pytest

from deploy.flower.control import connect_control
from deploy.operator_secret import OPERATOR_SECRET, new_operator_secret, read_operator_secret
from deploy.provision.kits import provision
from shared.errors import FedGTError
from tests.harness.kits import write_banks


@pytest.mark.parametrize("content", [b"", b"short", b"5" * 63, b"5" * 64 + b" x", b"\xff" * 64])
def test_a_damaged_file(tmp_path: Path, content: bytes) -> None:
    source = tmp_path / OPERATOR_SECRET
    source.write_bytes(content)
    source.chmod(0o600)
    with pytest.raises(FedGTError, match="is damaged: copy it again"):
        read_operator_secret(source)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FedGTError, match=r"operator\.secret is missing: 'fedgt provision"):
        read_operator_secret(tmp_path / OPERATOR_SECRET)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_of_others(tmp_path: Path, mode: int) -> None:
    source = tmp_path / OPERATOR_SECRET
    source.write_bytes(new_operator_secret())
    source.chmod(mode)
    with pytest.raises(FedGTError, match=f"others may read .*mode 0{mode:o}.*: chmod 600"):
        read_operator_secret(source)


def test_every_kit_has_its_own_and_keeps_it(tmp_path: Path) -> None:
    source = write_banks(tmp_path)
    kits = [tmp_path / name for name in ("one", "two", "one")]
    secrets = []
    for out in kits:
        provision(source, out)
        secrets.append(read_operator_secret(out / "coordinator" / OPERATOR_SECRET))
    assert secrets[0] == secrets[2] != secrets[1]
    assert not list((kits[0] / "bank-a").glob(OPERATOR_SECRET))


def test_no_request_is_sent_without_it(tmp_path: Path) -> None:
    provision(write_banks(tmp_path), tmp_path / "kits")
    kit = tmp_path / "kits" / "coordinator"
    (kit / OPERATOR_SECRET).unlink()
    with pytest.raises(FedGTError, match=r"operator\.secret is missing"), connect_control(kit):
        pass
