"""The wheel that a kit carries: the installed code, installed by hash."""

import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import hatchling.build
import pytest

from deploy.approval.approved_code import installed_hash
from deploy.provision.kits import provision
from deploy.provision.wheel import lock_bytes, wheel_bytes, wheel_name
from tests.harness.kits import write_banks

_ROOT = Path(__file__).parents[3]
_HASH = """from deploy.approval import approved_code as code
print(code.installed_hash(), code.__file__)"""


def names(wheel: bytes) -> set[str]:
    with zipfile.ZipFile(BytesIO(wheel)) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_same_files_as_the_built_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(_ROOT)
    built = hatchling.build.build_wheel(str(tmp_path))
    assert built == wheel_name()
    assert names(wheel_bytes()) == names((tmp_path / built).read_bytes())


@pytest.mark.parametrize(("side", "torch"), [("client", True), ("server", False)])
def test_everything_in_the_lock_file_has_a_hash(side: str, torch: bool) -> None:
    text = lock_bytes(side).decode()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#")]
    assert all("--hash=sha256:" in line for line in lines if line.strip())
    assert any(line.startswith("torch==") for line in lines) is torch
    assert lines[-1].startswith(f"./{wheel_name()} ")


@pytest.mark.slow
def test_a_kit_installs_the_approved_code_and_no_other(tmp_path: Path) -> None:
    provision(write_banks(tmp_path), tmp_path / "kits")
    kit, site = tmp_path / "kits" / "bank-a", tmp_path / "site"
    lock = (kit / "requirements.lock").read_text()
    (kit / "own.lock").write_text(lock[lock.index(f"./{wheel_name()}") :])

    def install() -> "subprocess.CompletedProcess[str]":
        options = ("--no-deps", "--no-index", "--require-hashes", "--target", str(site))
        return subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, "--requirement", "own.lock"],
            cwd=kit,
            capture_output=True,
            text=True,
        )

    wheel = kit / wheel_name()
    content = wheel.read_bytes()
    wheel.write_bytes(content[:-1] + b"x")
    refused = install()
    assert refused.returncode != 0
    assert "HASHES" in refused.stderr
    wheel.write_bytes(content)
    done = install()
    assert done.returncode == 0, done.stderr
    answer = subprocess.run(
        [sys.executable, "-P", "-c", _HASH],
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert answer.stdout.split() == [
        installed_hash(),
        str(site / "deploy/approval/approved_code.py"),
    ], answer.stderr
