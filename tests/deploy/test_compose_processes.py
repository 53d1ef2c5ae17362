"""The very commands of the compose files, as processes: TLS, keys, health, and a run."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deploy.engines.kit_host import TIMEOUT, Process, host_environment
from deploy.engines.ports import free_ports
from deploy.engines.processes import ProcessMark, marked_processes
from deploy.provision.kits import provision
from fedgt_client.data.partition import institution_graphs
from tests.harness.compose import Container, load, mounts

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        " " in sys.prefix,
        reason="Flower's SuperLink has no database in an environment whose path has a space",
    ),
]

_DEPLOY = Path(__file__).parents[2] / "deploy"
_NAMES = ("bank-a", "bank-b", "bank-c")
_CONTAINERS = 4 + 2 * len(_NAMES)
_OWNER = {"FEDGT_UID": "1000", "FEDGT_GID": "1000"}
_SETTINGS = """
federation = "banks"
run-name = "small"
rounds = 2
min-institutions = 3
give-up-after = 900.0
hidden = 16
heads = 2
samples = 4
global-nodes = 4
"""


@dataclass
class Host:
    """What stands for Docker: a network of loopback ports, and a temporary folder a container."""

    place: Path
    mark: ProcessMark

    def __post_init__(self) -> None:
        fleet, control, *ports = free_ports(2 + len(_NAMES) + _CONTAINERS)
        self.fleet = fleet
        self._healths = iter(ports[len(_NAMES) :])
        self.control = {
            "control:8000": f"localhost:{control}",
            "--host=control": "--host=127.0.0.1",
            "--port=8000": f"--port={control}",
            "0.0.0.0:9092": f"127.0.0.1:{fleet}",
            "superlink:9092": f"localhost:{fleet}",
        }
        self.runtimes = {
            bank: {
                "runtime:9094": f"127.0.0.1:{port}",
                "--host=runtime": "--host=127.0.0.1",
                "--port=9094": f"--port={port}",
            }
            for bank, port in zip(_NAMES, ports, strict=False)
        }

    def container(
        self, source: Path, name: str, *, bank: str = "", within: str = "", **values: str
    ) -> Container:
        """Return a service of a file; ``within`` is the one whose folders its node config names."""
        document = load(source, **_OWNER, **values)
        services: dict[str, dict[str, Any]] = document["services"]
        scratch = self.place / "scratch" / f"{bank}{name}"
        scratch.mkdir(parents=True)
        seen = mounts(document, services[name])
        if within:
            assert not seen.keys() & {"/data", "/state"}
            seen |= mounts(document, services[within])
        paths = {target: source.parent / place for target, (place, _) in seen.items()}
        if "/coordinator/runs" in paths:
            paths["/coordinator"] = paths["/coordinator/runs"].parent
        health = {"127.0.0.1:9190": f"127.0.0.1:{next(self._healths)}"}
        return Container(
            name,
            services[name],
            host_environment(self.mark),
            paths | {"/tmp": scratch},
            self.control | self.runtimes.get(bank, {}) | health,
            log=scratch / "log.txt",
        )


def on_one_host(host: Host) -> tuple[dict[str, Container], Path]:
    kits = host.place / "kits"
    provision(_DEPLOY / "federation.toml", kits)
    source = _DEPLOY / "docker-compose.yml"
    values = {"FEDGT_KITS": str(kits)}
    for bank in _NAMES:  # the policy names the coordinator, which has another address here
        node = kits / bank / "node.toml"
        node.write_text(node.read_text().replace("superlink:9092", f"localhost:{host.fleet}"))
    found = {
        name: host.container(source, name, **values)
        for name in ("superlink", "serverapp", "register", "run")
    }
    for bank in _NAMES:
        superexec = f"{bank}-superexec"
        found[f"{bank}-supernode"] = host.container(
            source, f"{bank}-supernode", bank=bank, within=superexec, **values
        )
        found[superexec] = host.container(source, superexec, bank=bank, **values)
    return found, kits


def on_hosts_of_their_own(host: Host) -> tuple[dict[str, Container], Path]:
    kits = host.place / "kits"
    description = host.place / "federation.toml"
    text = (_DEPLOY / "federation.toml").read_text()
    description.write_text(text.replace("superlink:9092", f"localhost:{host.fleet}"))
    provision(description, kits)
    coordinator = kits / "coordinator" / "docker-compose.yml"
    found = {name: host.container(coordinator, name) for name in ("superlink", "serverapp")}
    found |= {name: host.container(coordinator, name) for name in ("register", "run")}
    for bank in _NAMES:
        source = kits / bank / "docker-compose.yml"
        found[f"{bank}-supernode"] = host.container(
            source, "supernode", bank=bank, within="superexec"
        )
        found[f"{bank}-superexec"] = host.container(source, "superexec", bank=bank)
    return found, kits


def wait_until_healthy(container: Container, process: Process) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not container.is_healthy():
        assert process.poll() is None, container.log.read_text()
        assert time.monotonic() < deadline, container.log.read_text()
        time.sleep(1)


@pytest.mark.parametrize("layout", [on_one_host, on_hosts_of_their_own])
def test_a_run(tmp_path: Path, layout: Callable[[Host], tuple[dict[str, Container], Path]]) -> None:
    with marked_processes() as mark:
        containers, kits = layout(Host(tmp_path, mark))
        graphs = institution_graphs("consortium", clients=3, setting="disjoint", seed=0)
        for bank, graph in zip(_NAMES, graphs, strict=True):
            graph.save(kits / bank / "data")
            for path in (kits / bank / "data").iterdir():
                path.chmod(0o444)
        (kits / "coordinator" / "small.toml").write_text(_SETTINGS)

        superlink = containers["superlink"]
        assert not superlink.is_healthy()
        processes = {"superlink": superlink.start()}
        wait_until_healthy(superlink, processes["superlink"])
        registered = containers["register"].call("--json", timeout=TIMEOUT)
        assert registered.returncode == 0, registered.stderr
        assert sorted(json.loads(registered.stdout)["added"]) == list(_NAMES)
        servers = [name for name in containers if name not in ("superlink", "register", "run")]
        for name in servers:
            processes[name] = containers[name].start()
        for name in servers:
            wait_until_healthy(containers[name], processes[name])

        run = containers["run"].call("small.toml", timeout=3 * TIMEOUT)
        assert run.returncode == 0, run.stdout + run.stderr
        result = json.loads((kits / "coordinator/runs/small/result.json").read_text())
        assert (result["rounds"], sorted(result["per_client"])) == (2, list(_NAMES))
        assert (kits / "coordinator" / "database" / "state.db").exists()
        for bank in _NAMES:
            assert (kits / bank / "state" / "banks" / "small" / bank).is_dir()
        for name, process in processes.items():
            assert process.poll() is None, containers[name].log.read_text()
    assert not mark.processes()
