"""The scripts of a kit: installing, updating one in use, keeping the log."""

import os
import shutil
import subprocess
import sys
import time
import zipfile
from hashlib import sha256
from pathlib import Path

import psutil
import pytest

from deploy.provision.kits import provision
from deploy.provision.wheel import wheel_name
from tests.harness.kits import write_banks

_PROGRAMS = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))


def call(
    script: Path, *arguments: str, python: str = sys.executable
) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PATH": _PROGRAMS, "PYTHON": python}
    return subprocess.run(
        [str(script), *arguments], env=environment, cwd="/", capture_output=True, text=True
    )


@pytest.fixture
def kits(tmp_path: Path) -> Path:
    provision(write_banks(tmp_path), tmp_path / "kits")
    return tmp_path / "kits"


def test_an_update_keeps_what_was_edited(tmp_path: Path, kits: Path) -> None:
    there = tmp_path / "hosts: ü"
    for name in ("bank-a", "coordinator"):
        shutil.copytree(kits / name, there / name)
    (there / "bank-a" / "node.toml").write_text("# our policy\n")
    (there / "coordinator" / "run.toml").write_text("# our settings\n")
    (there / "bank-a" / "state" / "ledger").write_text("kept")
    (there / "bank-a" / "fedgt-0.0.9-py3-none-any.whl").touch()
    (kits / "bank-a" / "state" / "ledger").write_text("of nobody")
    (kits / "bank-a" / "node.key").write_text("a new key")
    provision(write_banks(tmp_path, port=9099), kits)

    for name in ("bank-a", "coordinator"):
        done = call(kits / name / "update.sh", str(there / name))
        assert done.returncode == 0, done.stderr
    assert (there / "bank-a" / "node.toml").read_text() == "# our policy\n"
    assert (there / "coordinator" / "run.toml").read_text() == "# our settings\n"
    assert (there / "bank-a" / "state" / "ledger").read_text() == "kept"
    assert ":9099" in (there / "bank-a" / "start-supernode.sh").read_text()
    assert ":9099" in (there / "coordinator" / "control.toml").read_text()
    assert (there / "bank-a" / "node.key").read_text() == "a new key"
    assert (there / "bank-a" / "node.key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (there / "bank-a").glob("*.whl")] == [wheel_name()]


def test_an_update_of_another_kit_is_refused(tmp_path: Path, kits: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (kits / "bank-b", kits / "coordinator", kits / "bank-a", tmp_path / "empty"):
        refused = call(kits / "bank-a" / "update.sh", str(folder))
        assert (refused.returncode, "not an earlier copy" in refused.stderr) == (2, True)
    assert not list((tmp_path / "empty").iterdir())
    unnamed = call(kits / "bank-a" / "update.sh")
    assert (unnamed.returncode, "name the folder" in unnamed.stderr) == (2, True)


def put_wheel(kit: Path, module: str) -> None:
    """Put a small wheel of FedGT's version into a kit, with a module of this name."""
    info = "fedgt-0.1.0.dist-info"
    files = {
        f"fedgt/{module}.py": "def main(): print(__name__)",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: fedgt\nVersion: 0.1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\nfedgt = fedgt.{module}:main\n",
        f"{info}/RECORD": "",
    }
    wheel = kit / "fedgt-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    digest = sha256(wheel.read_bytes()).hexdigest()
    (kit / "requirements.lock").write_text(f"./{wheel.name} --hash=sha256:{digest}\n")


@pytest.mark.slow
def test_an_installation_follows_the_kit(kits: Path) -> None:
    """Install other code of one version, and the same in another folder."""
    kit = kits / "bank-a"
    for path in kit.glob("*.whl"):
        path.unlink()

    def install(folder: Path, python: str = sys.executable) -> str:
        done = call(folder / "install.sh", "--no-index", python=python)
        assert done.returncode == 0, done.stderr
        return call(folder / ".venv" / "bin" / "fedgt").stdout

    put_wheel(kit, "one")
    assert install(kit) == "fedgt.one\n"
    put_wheel(kit, "two")
    # The environment that is there is not mixed with another Python.
    assert install(kit, python="false") == "fedgt.two\n"
    (kit / "requirements.lock").write_text("./fedgt-0.1.0-py3-none-any.whl --hash=sha256:00\n")
    assert call(kit / "install.sh", "--no-index").returncode != 0
    assert call(kit / ".venv" / "bin" / "fedgt").stdout == "fedgt.two\n"

    # Its programs would not start there; the scripts say so, and a new installation mends it.
    moved = kit.rename(kits / "moved here")
    refused = call(moved / "start-supernode.sh")
    assert (refused.returncode, "run ./install.sh again" in refused.stderr) == (2, True)
    put_wheel(moved, "two")
    assert install(moved) == "fedgt.two\n"


@pytest.mark.slow
def test_a_log_that_is_killed_begins_again(kits: Path) -> None:
    kit = kits / "coordinator"
    script = '. ./environment.sh; keep_log us; while read -r line; do echo "$line"; done'
    log = kit / "logs" / "us.log"
    with subprocess.Popen(
        ["sh", "-euc", script],
        cwd=kit,
        env=os.environ | {"PATH": _PROGRAMS},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None

        def say(line: str) -> None:
            assert process.stdin is not None
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            deadline = time.monotonic() + 60
            while not log.exists() or f" {line}\n" not in log.read_text():
                assert time.monotonic() < deadline
                time.sleep(0.1)

        say("before")
        keepers = [
            one
            for one in psutil.Process(process.pid).children(recursive=True)
            if "log" in one.cmdline()
        ]
        assert len(keepers) == 1
        keepers[0].kill()
        psutil.wait_procs(keepers, 60)  # or it would take the next line with it
        say("after")
        process.stdin.close()
        assert process.wait(60) == 0
