"""What the coordinator answers the doctor: Flower's own Fleet API, in this process."""

import json
import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from flwr.client.grpc_rere_client import node_auth_client_interceptor
from flwr.common.constant import NOOP_FLWR_AID
from flwr.server.superlink.fleet.grpc_rere import node_auth_server_interceptor
from flwr.supercore.date import now

from deploy.doctor.check import Check, State
from deploy.doctor.kit import InstitutionKit
from deploy.doctor.network import check_network
from deploy.doctor.report import examine
from deploy.engines.ports import free_ports
from deploy.flower.fleet_guard import clock_guard
from deploy.provision import pki
from deploy.provision.kits import provision
from tests.harness.fleet_api import add, fleet
from tests.harness.kits import fedgt, write_banks


@pytest.fixture
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture
def kits(tmp_path: Path, port: int) -> Path:
    provision(write_banks(tmp_path, port=port), tmp_path / "kits")
    return tmp_path / "kits"


@contextmanager
def other_server(port: int) -> Iterator[None]:
    """Accept connections without TLS."""
    listener = socket.create_server(("127.0.0.1", port))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.sendall(b"220 mail ready\r\n")
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield
    finally:
        listener.close()


def ask(kits: Path, name: str = "bank-a") -> dict[str, Check]:
    kit = InstitutionKit.open(kits / name)
    return {check.name: check for check in check_network(kit)}


def states(found: dict[str, Check]) -> list[str]:
    return [check.state for check in found.values()]


def test_nobody_listens(kits: Path) -> None:
    found = ask(kits)
    assert states(found) == ["failed", "skipped", "skipped"]
    assert "start-superlink.sh" in found["port"].remedy
    # Asked alone, as the start script does, the answer says why there is none.
    [alone] = examine(kits / "bank-a", "admission")
    assert (alone.state, alone.remedy) == (State.skipped, found["port"].remedy)
    assert alone.finding == f"not asked: {found['port'].finding}"


def test_an_unknown_host(kits: Path) -> None:
    source = kits / "bank-a" / "kit.toml"
    source.write_text(source.read_text().replace("127.0.0.1", "no-such-host.invalid"))
    found = ask(kits)
    assert states(found) == ["failed", "skipped", "skipped"]
    assert "not known here" in found["port"].finding


def test_no_tls(kits: Path, port: int) -> None:
    with other_server(port):
        found = ask(kits)
    assert states(found) == ["ok", "failed", "skipped"]
    assert "no TLS" in found["tls"].finding


def test_another_authority(tmp_path: Path, kits: Path, port: int) -> None:
    provision(tmp_path / "federation.toml", tmp_path / "others")
    with fleet(tmp_path / "others", port):
        found = ask(kits)
    assert states(found) == ["ok", "failed", "skipped"]
    assert "another federation" in found["tls"].remedy


def test_an_address_that_the_certificate_lacks(kits: Path, port: int) -> None:
    source = kits / "bank-a" / "kit.toml"
    source.write_text(source.read_text().replace("127.0.0.1", "127.0.0.2"))
    with socket.create_server(("127.0.0.2", port)) as listener:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        place = kits / "coordinator"
        context.load_cert_chain(place / "server.crt", place / "server.key")

        def serve() -> None:
            listener.accept()[0].close()  # the look at the port
            with pytest.raises(ssl.SSLError):
                context.wrap_socket(listener.accept()[0], server_side=True)

        thread = threading.Thread(target=serve)
        thread.start()
        found = ask(kits)
        thread.join()
    assert states(found) == ["ok", "failed", "skipped"]
    assert "coordinator.also" in found["tls"].remedy


def test_a_certificate_that_ends_soon(tmp_path: Path, port: int) -> None:
    source = write_banks(tmp_path, port=port)
    source.write_text("certificate-days = 10\n" + source.read_text())
    provision(source, tmp_path / "soon")
    with fleet(tmp_path / "soon", port) as state:
        add(state, tmp_path / "soon", "bank-a")
        found = ask(tmp_path / "soon")
    assert states(found) == ["ok", "warning", "ok"]
    assert "--renew" in found["tls"].remedy


@pytest.mark.parametrize(
    ("days", "backdated", "finding", "remedy"),
    [(-1, 3, "expired", "--renew"), (10, -1, "not yet valid", "clock")],
)
def test_certificates_of_another_time(
    kits: Path,
    port: int,
    monkeypatch: pytest.MonkeyPatch,
    days: int,
    backdated: int,
    finding: str,
    remedy: str,
) -> None:
    monkeypatch.setattr(pki, "_BACKDATED", timedelta(days=backdated))
    place = kits / "coordinator"
    ca = (pki.load_tls_key(kits / "private" / "ca.key"), pki.load_certificate(place / "ca.crt"))
    key = pki.load_tls_key(place / "server.key").public_key()
    made = pki.new_server_certificate(key, ("127.0.0.1",), ca, days)
    (place / "server.crt").write_bytes(made.public_bytes(Encoding.PEM))
    with fleet(kits, port):
        found = ask(kits)
    assert states(found) == ["ok", "failed", "skipped"]
    assert finding in found["tls"].finding
    assert remedy in found["tls"].remedy


def test_a_key_that_is_not_registered(kits: Path, port: int) -> None:
    with fleet(kits, port) as state:
        add(state, kits, "bank-b")
        found = ask(kits)
    assert states(found) == ["ok", "ok", "failed"]
    assert "node.pub" in found["admission"].remedy


def test_a_key_that_was_taken_out(kits: Path, port: int) -> None:
    with fleet(kits, port) as state:
        node = add(state, kits, "bank-a")
        state.activate_node(node, 30)
        state.delete_node(NOOP_FLWR_AID, node)
        assert ask(kits)["admission"].state is State.failed


@pytest.mark.parametrize("seconds", [60, -600])
def test_a_wrong_clock(
    kits: Path, port: int, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    monkeypatch.setattr(
        node_auth_client_interceptor, "now", lambda: now() + timedelta(seconds=seconds)
    )
    with fleet(kits, port) as state:
        add(state, kits, "bank-a")
        found = ask(kits)["admission"]
    # Flower's own SuperLink, of an earlier version, does not say more.
    assert (found.state, found.finding) == (State.failed, "the clocks differ too much")
    assert "have NTP set this machine's clock" in found.remedy


@pytest.mark.parametrize(("seconds", "off"), [(60, "60 s ahead of"), (-600, "600 s behind")])
def test_by_how_much_a_clock_is_wrong(
    kits: Path,
    port: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    seconds: int,
    off: str,
) -> None:
    monkeypatch.setattr(
        node_auth_client_interceptor, "now", lambda: now() + timedelta(seconds=seconds)
    )
    ours = clock_guard(node_auth_server_interceptor._unary_unary_rpc_terminator)
    monkeypatch.setattr(node_auth_server_interceptor, "_unary_unary_rpc_terminator", ours)
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    with fleet(kits, port) as state:
        add(state, kits, "bank-a")
        found = ask(kits)["admission"]
    assert found.finding == f"the clocks differ too much: this clock is {off} the coordinator's"
    said = f"a supernode at 127.0.0.1 is refused: its clock is {off} this one"
    assert said in caplog.messages


def test_no_key_to_ask_with(kits: Path, port: int) -> None:
    (kits / "bank-a" / "node.key").unlink()
    with fleet(kits, port):
        assert ask(kits)["admission"].state is State.skipped


@pytest.mark.parametrize("online", [False, True])
def test_asking_changes_nothing(kits: Path, port: int, online: bool) -> None:
    with fleet(kits, port) as state:
        node = add(state, kits, "bank-a")
        if online:
            state.activate_node(node, 30)
        before = list(state.get_node_info())
        assert states(ask(kits)) == ["ok", "ok", "ok"]
        assert list(state.get_node_info()) == before


def test_the_command(
    kits: Path, port: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = fedgt(capsys, monkeypatch, "doctor", str(kits))
    assert code == 2
    assert len(err.splitlines()) == 1
    code, out, err = fedgt(capsys, monkeypatch, "doctor", str(kits / "bank-a"), "--json")
    report = json.loads(out)
    assert (code, report["ok"], err) == (1, False, "")
    red = {check["name"]: check["remedy"] for check in report["checks"]}
    assert red["port"]
    code, out, _ = fedgt(capsys, monkeypatch, "doctor", str(kits / "bank-a"))
    assert code == 1
    assert len(out.splitlines()) == len(report["checks"])
    code, out, _ = fedgt(
        capsys, monkeypatch, "doctor", str(kits / "bank-a"), "--only", "port", "--json"
    )
    assert (code, [check["name"] for check in json.loads(out)["checks"]]) == (1, ["port"])
    code, _, err = fedgt(capsys, monkeypatch, "doctor", str(kits / "bank-a"), "--only", "x")
    assert (code, "there are: programs, name" in err) == (2, True)
