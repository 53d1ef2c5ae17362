"""Kits at work: a coordinator and three institutions as processes, with TLS and node keys."""

import json
import shutil
import sys
from pathlib import Path

import psutil
import pytest

from deploy.doctor.check import State
from deploy.doctor.kit import InstitutionKit
from deploy.doctor.network import check_admission
from deploy.processes import ProcessMark, marked_processes
from deploy.provision.kits import provision
from deploy.provision.layout import revoke
from deploy.provision.node_key import make_node_key
from shared.data.institutions import institutions
from tests.deploy.machines import Machine, free_ports, wait_for

NAMES = ("bank-a", "bank-b", "bank-c")

_SETTINGS = """
federation = "banks"
run-name = "small"
rounds = 2
min-institutions = 3
give-up-after = 100.0
hidden = 16
heads = 2
samples = 4
global-nodes = 4
"""


class Scene:
    """Kits made on one machine, and used on four."""

    def __init__(self, place: Path, mark: ProcessMark) -> None:
        self.fleet, self.control, stranger, *ports = free_ports(3 + len(NAMES))
        self.kits, self._place, self._mark = place / "kits", place, mark
        # One of them makes its key itself.
        make_node_key(place / "made-there", "bank-c")
        sections = [
            f'[[institutions]]\nname = "{name}"\nport = {port}\n'
            for name, port in zip(NAMES, ports, strict=True)
        ]
        (place / "federation.toml").write_text(
            f'name = "banks"\n[coordinator]\naddress = "localhost:{self.fleet}"\n'
            f'listen = "127.0.0.1:{self.fleet}"\ncontrol-port = {self.control}\n'
            + "".join(sections)
            + 'public-key = "made-there/node.pub"\n'
        )
        provision(place / "federation.toml", self.kits)
        self.coordinator = self.machine("coordinator")
        self.banks = {name: self.machine(name) for name in NAMES}
        shutil.copy(place / "made-there" / "node.key", self.banks["bank-c"].folder)
        graphs = institutions("consortium", clients=3, setting="disjoint", seed=0)
        for graph, bank in zip(graphs, self.banks.values(), strict=True):
            graph.save(bank.folder / "data")
        # The kit of bank-a with another key, on a port of its own.
        self.stranger = self.machine("bank-a", "stranger")
        (self.stranger.folder / "node.key").unlink()
        make_node_key(self.stranger.folder, "stranger")
        script = self.stranger.folder / "start-supernode.sh"
        script.write_text(script.read_text().replace(f"--port {ports[0]}", f"--port {stranger}"))

    def machine(self, kit: str, name: str = "") -> Machine:
        return Machine(self.kits / kit, self._place / "machines" / (name or kit), self._mark)


def listening(process: psutil.Process) -> set[tuple[str, int]]:
    """Addresses that a process and its children listen on."""
    family = [process, *process.children(recursive=True)]
    found = [connection for one in family for connection in one.net_connections("inet")]
    return {
        (one.laddr.ip.removeprefix("::ffff:"), one.laddr.port)
        for one in found
        if one.status == psutil.CONN_LISTEN
    }


def admission(bank: Machine) -> State:
    return check_admission(InstitutionKit.open(bank.folder)).state


@pytest.mark.skipif(
    " " in sys.prefix,
    reason="Flower's SuperLink has no database in an environment whose path has a space",
)
@pytest.mark.slow
def test_a_federation_of_kits(tmp_path: Path) -> None:
    with marked_processes() as mark:
        scene = Scene(tmp_path, mark)
        coordinator, banks = scene.coordinator, scene.banks
        superlink = coordinator.start("start-superlink.sh")
        wait_for(scene.fleet, superlink)
        wait_for(scene.control, superlink)
        # Nothing listens to the outside but what federation.toml says.
        ours = {scene.fleet, scene.control}
        addresses = {one for one in listening(psutil.Process(superlink.pid)) if one[1] in ours}
        assert addresses == {("127.0.0.1", port) for port in ours}

        assert admission(banks["bank-a"]) is State.failed
        for how in ("added", "kept"):
            registered = coordinator.call("register.sh", "--json")
            assert registered.returncode == 0, registered.stderr
            assert sorted(json.loads(registered.stdout)[how]) == sorted(NAMES)

        supernodes = {name: bank.start("start-supernode.sh") for name, bank in banks.items()}
        refused = scene.stranger.start("start-supernode.sh")
        (coordinator.folder / "small.toml").write_text(_SETTINGS)
        run = coordinator.call("run.sh", "small.toml", patience=200)
        assert run.returncode == 0, run.stdout + run.stderr
        result = json.loads((coordinator.folder / "runs" / "small" / "result.json").read_text())
        assert sorted(result["per_client"]) == sorted(NAMES)
        assert result["rounds"] == 2

        assert refused.wait(10) != 0
        assert "Exit Code: 305" in scene.stranger.log.read_text()
        for name, bank in banks.items():
            assert supernodes[name].poll() is None
            assert (bank.folder / "state" / "banks" / "small" / name).is_dir()
        # Asked beside a connected supernode, and without disturbing it.
        assert {check["state"] for check in banks["bank-b"].doctor().values()} == {"ok"}

        revoke("bank-b", scene.kits)
        shutil.copytree(scene.kits / "coordinator", coordinator.folder, dirs_exist_ok=True)
        gone = json.loads(coordinator.call("register.sh", "--json").stdout)
        assert list(gone["removed"]) == ["bank-b"]
        assert admission(banks["bank-b"]) is State.failed
        assert admission(banks["bank-a"]) is State.ok
        # A connection that is open does not outlive its key; Flower calls that a graceful end.
        assert supernodes["bank-b"].wait(60) == 0
        assert supernodes["bank-a"].poll() is None
    assert not mark.processes()
