"""What the doctor says of a coordinator's kit: each fault is red, with the remedy."""

import os
import shutil
import socket
import ssl
import sys
import threading
import tomllib
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import tomli_w
from cryptography.hazmat.primitives.serialization import Encoding

from deploy.approval.approved_code import installed_hash
from deploy.doctor import coordinator
from deploy.doctor.check import Check, State
from deploy.doctor.kit import CoordinatorKit
from deploy.doctor.report import examine
from deploy.engines.ports import free_ports
from deploy.provision import pki
from deploy.provision.kits import provision
from shared.errors import FedGTError
from tests.harness.fleet_api import fleet
from tests.harness.kits import write_banks


@pytest.fixture
def ports() -> list[int]:
    return free_ports(2)


@pytest.fixture
def kit(tmp_path: Path, ports: list[int], monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = (str(Path(sys.executable).parent), os.environ.get("PATH", ""))
    monkeypatch.setenv("PATH", os.pathsep.join(programs))
    source = write_banks(tmp_path, port=ports[0])
    spec = tomllib.loads(source.read_text())
    spec["coordinator"] |= {"listen": f"127.0.0.1:{ports[0]}", "control-port": ports[1]}
    source.write_text(tomli_w.dumps(spec))
    provision(source, tmp_path / "kits")
    return tmp_path / "kits" / "coordinator"


def findings(folder: Path) -> dict[str, Check]:
    return {check.name: check for check in examine(folder)}


def no_keys(kit: Path) -> None:
    shutil.rmtree(kit / "keys")


def another_key(kit: Path) -> None:
    (kit / "server.key").write_bytes(pki.tls_key_bytes(pki.new_key()))


def old_certificate(kit: Path) -> None:
    ca = (pki.load_tls_key(kit.parent / "private/ca.key"), pki.load_certificate(kit / "ca.crt"))
    key = pki.load_tls_key(kit / "server.key").public_key()
    made = pki.new_server_certificate(key, ("127.0.0.1",), ca, 0)
    (kit / "server.crt").write_bytes(made.public_bytes(Encoding.PEM))


def other_address(kit: Path) -> None:
    source = kit / "control.toml"
    source.write_text(source.read_text().replace('address = "127.0.0.1', 'address = "example.org'))


@pytest.mark.parametrize(
    ("spoil", "name", "finding", "remedy"),
    [
        (no_keys, "keys", "is empty", "copy this kit"),
        (lambda kit: (kit / "server.key").chmod(0o644), "server.key", "mode 0644", "chmod 600"),
        (
            lambda kit: (kit / "ca.crt").write_text("x"),
            "ca.crt",
            "not a certificate",
            "copy it again",
        ),
        (lambda kit: (kit / "server.crt").unlink(), "server.crt", "it is missing", "copy it again"),
        (another_key, "server.crt", "belongs to another server.key", "--renew"),
        (old_certificate, "server.crt", "ended on", "--renew"),
        (other_address, "server.crt", "does not name example.org", "--renew"),
    ],
)
def test_faults(
    kit: Path, spoil: Callable[[Path], object], name: str, finding: str, remedy: str
) -> None:
    spoil(kit)
    found = findings(kit)[name]
    assert found.state is State.failed
    assert finding in found.finding
    assert remedy in found.remedy


def test_a_damaged_kit(kit: Path) -> None:
    (kit / "control.toml").write_text('address = "x:y:z"\n')
    with pytest.raises(FedGTError, match="is damaged"):
        CoordinatorKit.open(kit)


def test_before_the_start(kit: Path) -> None:
    found = findings(kit)
    red = [check for check in found.values() if check.state is State.failed]
    assert red == []
    assert found["keys"].finding == "bank-a, bank-b"
    for name in ("fleet port", "control"):
        assert (found[name].state, "is free" in found[name].finding) == (State.warning, True)


def test_a_port_that_others_use(kit: Path, ports: list[int]) -> None:
    with socket.create_server(("127.0.0.1", ports[1])) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"220 mail ready\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        found = examine(kit, "control")[0]
        thread.join()
    assert (found.state, found.remedy) == (State.failed, "end what uses this port")


def test_the_fleet_port_at_work(kit: Path, ports: list[int]) -> None:
    with fleet(kit.parent, ports[0]):
        assert examine(kit, "fleet port")[0].state is State.ok
        provision(kit.parent.parent / "federation.toml", kit.parent, renew=True)
        found = examine(kit, "fleet port")[0]
    assert (found.state, found.remedy) == (State.failed, "restart start-superlink.sh")


@contextmanager
def https(kit: Path, host: str, port: int) -> Iterator[None]:
    """Serve TLS with the server's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(kit / "server.crt", kit / "server.key")
    listener = socket.create_server((host, port))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
                context.wrap_socket(connection, server_side=True).close()
            except ssl.SSLError:
                continue
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        listener.close()


@pytest.mark.parametrize(("host", "state"), [("127.0.0.1", "ok"), ("0.0.0.0", "failed")])
def test_the_control_port_is_for_this_machine_alone(
    kit: Path, ports: list[int], monkeypatch: pytest.MonkeyPatch, host: str, state: str
) -> None:
    # Another address of this machine, wherever it runs.
    monkeypatch.setattr(coordinator, "_outward_address", lambda: "127.0.0.2")
    with https(kit, host, ports[1]):
        assert examine(kit, "control")[0].state == state


def test_a_full_disk(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1000))
    assert examine(kit, "disk")[0].state is State.failed


def test_a_warning_before_the_end(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "days_left", lambda _: 10.0)
    for name in ("ca.crt", "server.crt"):
        found = examine(kit, name)[0]
        assert (found.state, "--renew" in found.remedy) == (State.warning, True)


def test_the_clock_is_shown(kit: Path) -> None:
    found = examine(kit, "clock")[0]
    assert found.state in (State.ok, State.warning)
    assert "UTC" in found.finding


def test_programs_that_are_not_there(kit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    assert examine(kit, "programs")[0].state is State.failed


def test_the_code_of_runs_is_shown(kit: Path) -> None:
    assert findings(kit)["code"].finding == f"{installed_hash()} is installed"


def test_the_operators_secret(kit: Path) -> None:
    secret = kit / "operator.secret"
    assert findings(kit)["operator"].state == State.ok
    secret.chmod(0o644)
    check = findings(kit)["operator"]
    assert (check.state, "chmod 600" in check.finding) == (State.failed, True)
    secret.unlink()
    assert findings(kit)["operator"].state == State.failed
