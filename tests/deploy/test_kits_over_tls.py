"""Kits at work: a coordinator and three institutions as processes, with TLS and node keys."""

import json
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest

from deploy.doctor.check import State
from deploy.doctor.kit import InstitutionKit
from deploy.doctor.network import check_admission
from deploy.engines.kit_host import TIMEOUT
from deploy.engines.local_federation import START_SUPERNODE
from deploy.engines.ports import free_ports
from deploy.engines.processes import marked_processes
from deploy.provision.node_key import make_node_key
from deploy.provision.registered_keys import revoke
from fedgt_client.data.partition import institution_graphs
from fedgt_client.graph import Graph
from fedgt_server.result import Result
from shared.config import Scalar
from tests.harness.fault_scenarios import processes_over_tls
from tests.harness.federation import HarnessFederation, HarnessHost

pytestmark: list[pytest.MarkDecorator] = processes_over_tls

NAMES = ("bank-a", "bank-b", "bank-c")

_SETTINGS: dict[str, Scalar] = {
    "run-name": "small",
    "rounds": 2,
    "min-institutions": 3,
    "give-up-after": 900.0,
    "hidden": 16,
    "heads": 2,
    "samples": 4,
    "global-nodes": 4,
}


def unknown_host(federation: HarnessFederation) -> HarnessHost:
    """Add a host with the kit of bank-a, another key and a port of its own."""
    host = federation.add_host("bank-a", "unknown")
    (host.folder / "node.key").unlink()
    make_node_key(host.folder, "unknown")
    script = host.folder / START_SUPERNODE
    old, new = federation.ports["bank-a"], free_ports(1)[0]
    script.write_text(script.read_text().replace(f"--port {old}", f"--port {new}"))
    return host


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    """Return addresses that a process and its children listen on."""
    family = [process, *process.children(recursive=True)]
    found = [connection for one in family for connection in one.net_connections("inet")]
    return {
        (one.laddr.ip.removeprefix("::ffff:"), one.laddr.port)
        for one in found
        if one.status == psutil.CONN_LISTEN
    }


def admission(bank: HarnessHost) -> State:
    return check_admission(InstitutionKit.open(bank.folder)).state


def check_predictions(bank: HarnessHost, name: str, graph: Graph, result: Result) -> None:
    """Predict at an institution; accuracy is that of the journal's best round, to the digit."""
    answer = bank.call("fedgt", "predict", ".", "--out", "scores.parquet", "--json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["round"] == result.best_round
    table = pq.read_table(bank.folder / "scores.parquet")
    names = np.array(graph.class_names)
    right = np.array(table["predicted"]) == names[graph.labels]
    expected = result.per_client[name].test_accuracy
    # As training computes it: a mean of 32 bits.
    assert float(right[graph.test].astype(np.float32).mean()) == expected


def test_a_federation_of_kits(tmp_path: Path) -> None:
    graphs = institution_graphs("consortium", clients=3, setting="disjoint", seed=0)
    with marked_processes() as mark:
        federation = HarnessFederation(
            tmp_path, dict(zip(NAMES, graphs, strict=True)), mark, own_keys=["bank-c"]
        )
        banks = federation.institutions
        superlink = federation.start_superlink()
        # Nothing listens to the outside but what federation.toml says.
        ours = {federation.fleet_port, federation.control_port}
        addresses = {one for one in listening(psutil.Process(superlink.pid)) if one[1] in ours}
        assert addresses == {("127.0.0.1", port) for port in ours}

        assert admission(banks["bank-a"]) is State.failed
        for how in ("added", "kept"):
            assert sorted(federation.register()[how]) == sorted(NAMES)

        supernodes = {name: federation.start_supernode(name) for name in NAMES}
        unknown = unknown_host(federation)
        refused = unknown.start(START_SUPERNODE)
        result = federation.run(_SETTINGS)
        assert sorted(result.per_client) == sorted(NAMES)
        assert result.rounds == 2

        assert refused.wait(TIMEOUT) == 1
        assert "no connection to the coordinator: Failed to activate" in unknown.log.read_text()
        assert "send node.pub to the coordinator" in unknown.log.read_text()
        for name, bank in banks.items():
            assert supernodes[name].poll() is None
            assert (bank.folder / "state" / "banks" / "small" / name).is_dir()
        check_predictions(banks["bank-a"], "bank-a", graphs[0], result)
        # Asked beside a connected supernode, and without disturbing it.
        checks = banks["bank-b"].doctor()
        del checks["app user"]  # root is warned
        assert {check["state"] for check in checks.values()} == {"ok"}

        revoke("bank-b", federation.kits)
        federation.renew_coordinator()
        assert list(federation.register()["removed"]) == ["bank-b"]
        assert admission(banks["bank-b"]) is State.failed
        assert admission(banks["bank-a"]) is State.ok
        # A connection that is open does not outlive its key.
        assert supernodes["bank-b"].wait(2 * TIMEOUT) == 1
        assert "does not let bank-b in" in banks["bank-b"].log.read_text()
        assert supernodes["bank-a"].poll() is None
        # A machine that loses its power takes nobody else with it.
        banks["bank-a"].kill()
        supernodes["bank-a"].wait(60)
        assert superlink.poll() is None
    assert not mark.processes()
