"""Who is refused, and where the reason can be read."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest
from flwr.proto.fleet_pb2 import ActivateNodeRequest
from flwr.proto.fleet_pb2_grpc import FleetStub
from flwr.supercore.primitives.asymmetric import public_key_to_bytes

from deploy.engines.kit_host import Process
from deploy.engines.local_federation import START_SUPERLINK, START_SUPERNODE
from deploy.engines.ports import free_ports
from deploy.engines.processes import ProcessMark, marked_processes
from deploy.engines.superlink_run import ExitCode
from deploy.provision import pki
from deploy.provision.node_key import make_node_key
from deploy.provision.registered_keys import revoke
from fedgt_client.graph import Graph
from fedgt_server.result import read_result
from shared.config import Scalar
from shared.version import installed_version
from tests.harness.fault_scenarios import (
    SMALL,
    TIMEOUT,
    A,
    B,
    C,
    banks,
    events,
    logs_on_failure,
    processes_over_tls,
    wait_until,
)
from tests.harness.federation import HarnessFederation, HarnessHost, Network

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

# What a supernode says once it is let in.
_CONNECTED = "SuperNode ID"

_SETTINGS: dict[str, Scalar] = SMALL | {"rounds": 1, "min-institutions": 2}


@pytest.fixture(scope="module")
def mark() -> Iterator[ProcessMark]:
    with marked_processes() as mark:
        yield mark
    assert not mark.processes()


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of further packages at the second institution, empty at first."""
    return tmp_path_factory.mktemp("packages")


@pytest.fixture(scope="module")
def federation(
    tmp_path_factory: pytest.TempPathFactory, mark: ProcessMark, packages: Path
) -> HarnessFederation:
    """Start a coordinator with the keys of three institutions, none of which is connected."""
    found_first = f'PYTHONPATH="{packages}:$PYTHONPATH" exec "$0" "$@"'
    federation = HarnessFederation(
        tmp_path_factory.mktemp("banks"),
        banks(A, B, C),
        mark,
        network=Network(prefixes={B: ("sh", "-c", found_first)}),
    )
    federation.allow(A, {"max-local-epochs": 1})
    federation.start_superlink()
    federation.register()
    return federation


class Past(datetime):
    """Two years ago."""

    @classmethod
    def now(cls, tz: object = None) -> "Past":
        return cls.fromtimestamp(datetime.now(UTC).timestamp() - 2 * 365 * 86400, UTC)


@pytest.fixture(scope="module")
def expired(tmp_path_factory: pytest.TempPathFactory, mark: ProcessMark) -> HarnessFederation:
    """Make a federation whose server certificate has ended; nothing is started yet."""
    with pytest.MonkeyPatch.context() as then:
        then.setattr(pki, "datetime", Past)
        return HarnessFederation(tmp_path_factory.mktemp("expired"), banks(A), mark)


def another(federation: HarnessFederation, name: str) -> HarnessHost:
    """Add a second host with a kit, on a port of its own."""
    host = federation.add_host(A, name)
    edit(host, START_SUPERNODE, f"--port {federation.ports[A]}", f"--port {free_ports(1)[0]}")
    return host


def edit(host: HarnessHost, script: str, old: str, new: str) -> None:
    path = host.folder / script
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


def wait_for_line(host: HarnessHost, text: str) -> None:
    wait_until(lambda: text in host.log.read_text(), f"'{text}' in {host.log}")


def end(host: HarnessHost, process: Process) -> None:
    """End what may still try to connect, and see that it never was connected."""
    host.kill()
    process.wait(TIMEOUT)
    assert _CONNECTED not in host.log.read_text()


def test_keys_and_certificates(federation: HarnessFederation, expired: HarnessFederation) -> None:
    """Try all at once: each takes some seconds to be refused."""
    with logs_on_failure(federation):
        unknown = another(federation, "unknown")
        (unknown.folder / "node.key").unlink()
        make_node_key(unknown.folder, "unknown")
        foreign = another(federation, "foreign")
        shutil.copy(expired.kits / A / "ca.crt", foreign.folder)
        plain = another(federation, "plain")
        edit(plain, START_SUPERNODE, "--root-certificates ca.crt", "--insecure")
        revoke(C, federation.kits)
        federation.renew_coordinator()
        assert list(federation.register()["removed"]) == [C]
        revoked = federation.institutions[C]
        refused = (unknown, foreign, plain, revoked)
        started = [host.start(START_SUPERNODE) for host in refused]

        # Who registers keys reads which was refused; who holds it reads that it was.
        for host in (unknown, revoked):
            wait_for_line(host, "Failed to activate SuperNode")
            public = pki.load_public_key(host.folder / "node.pub")
            body = public_key_to_bytes(public).decode().splitlines()[2]
            wait_for_line(federation.coordinator, body)
        wait_for_line(federation.coordinator, "has a key that is not known")
        # Who holds the wrong ca.crt, or talks without TLS, can fix that.
        wait_for_line(foreign, "CERTIFICATE_VERIFY_FAILED")
        wait_for_line(plain, "requires a secure TLS connection")
        for host, process in zip(refused, started, strict=True):
            end(host, process)


def test_plain_text_gets_no_answer(federation: HarnessFederation) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{federation.fleet_port}") as channel:
        with pytest.raises(grpc.RpcError) as refused:
            FleetStub(channel).ActivateNode(ActivateNodeRequest(), timeout=30)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_an_expired_certificate(expired: HarnessFederation) -> None:
    coordinator, bank = expired.coordinator, expired.institutions[A]
    with logs_on_failure(expired):
        # The coordinator can fix it, and does not start.
        assert coordinator.start(START_SUPERLINK).wait(TIMEOUT) == 2
        log = coordinator.log.read_text()
        assert "server.crt" in log
        assert "--renew" in log
        # It ends while the coordinator is at work: institutions do not connect again.
        edit(coordinator, START_SUPERLINK, "fedgt doctor . --only server.crt || exit 2", "")
        expired.start_superlink()
        supernode = bank.start(START_SUPERNODE)
        wait_for_line(bank, "certificate has expired")
        end(bank, supernode)
        expired.kill_superlink()


def renamed(graph: Graph, place: Path) -> None:
    """Save the same data under another schema."""
    replace(graph, feature_names=("spending", *graph.feature_names[1:])).save(place)


def refusal(federation: HarnessFederation, run_name: str) -> str:
    """Train, and return the line that says why that was refused."""
    settings = federation.write_settings(_SETTINGS | {"run-name": run_name})
    answer = federation.coordinator.call("run.sh", settings, timeout=TIMEOUT)
    assert answer.returncode == ExitCode.failed, answer.stdout + answer.stderr
    out = federation.run_folder(run_name)
    assert not events(out, "round")
    line = answer.stderr.splitlines()[-1]
    assert line == f"fedgt: {events(out, 'failed')[0]['reason']}"
    return line


def test_another_schema_and_another_version(federation: HarnessFederation, packages: Path) -> None:
    with logs_on_failure(federation):
        data = federation.institutions[B].folder / "data"
        graph = Graph.open(data)
        features = graph.feature_names
        shutil.move(data, data.with_name("right"))
        renamed(graph, data)
        for name in (A, B):
            federation.start_supernode(name)
            wait_for_line(federation.institutions[name], _CONNECTED)
        assert (
            f"{B} has other feature columns than {A}: number 1 is 'spending', not '{features[0]}'"
        ) in refusal(federation, "schema")

        shutil.rmtree(data)
        shutil.move(data.with_name("right"), data)
        installed = packages / "fedgt-0.0.9.dist-info"
        installed.mkdir()
        (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: fedgt\nVersion: 0.0.9\n")
        assert (f"{B} has FedGT 0.0.9 installed, the coordinator {installed_version()}") in refusal(
            federation, "version"
        )

        # Fixed: both take part.
        shutil.rmtree(installed)
        result = federation.run(_SETTINGS | {"run-name": "fixed"}, timeout=TIMEOUT)
        assert sorted(result.per_client) == [A, B]


def test_settings_that_one_institution_does_not_allow(federation: HarnessFederation) -> None:
    """They cost that institution's part, not the run; the reason is in logs and journal."""
    asked: dict[str, Scalar] = {"run-name": "asks", "local-epochs": 3, "min-institutions": 1}
    with logs_on_failure(federation):
        settings = federation.write_settings(_SETTINGS | asked)
        answer = federation.coordinator.call("run.sh", settings, timeout=TIMEOUT)
        assert answer.returncode == ExitCode.finished, answer.stdout + answer.stderr
        result = read_result(federation.run_folder("asks"))
        assert result is not None
        assert sorted(result.per_client) == [B]
        reason = "refuses the run: local-epochs = 3, allowed: at most 1 ([policy] max-local-epochs)"
        warnings = [event["warning"] for event in events(federation.run_folder("asks"), "warning")]
        assert f"{A} is not admitted: it {reason}" in warnings
        assert f"{A} {reason}" in federation.institutions[A].log.read_text()
        assert f"{A} is not admitted: it {reason}" in answer.stdout
        # Both sides can know it beforehand.
        asks = str(federation.coordinator.folder / settings)
        check = federation.institutions[A].call("fedgt", "policy", "check", asks, ".")
        assert (check.returncode, check.stdout) == (1, f". {reason}\n")
        # What left there, but for introductions to earlier runs, is the refusal.
        sent = federation.institutions[A].call("fedgt", "outbound", ".", "--run", "asks")
        assert [reason in line for line in sent.stdout.splitlines()] == [True]
