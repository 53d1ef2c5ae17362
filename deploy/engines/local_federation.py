"""A federation as processes on this machine, each started by its kit's own script.

With TLS and node keys, as on machines of their own; each host is a folder. The owner of the
process mark ends all processes.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from deploy.engines.kit_host import KitHost, Process
from deploy.engines.ports import free_ports
from deploy.engines.processes import ProcessMark
from deploy.provision.federation_spec import Address
from deploy.provision.kits import provision
from deploy.provision.registered_keys import COORDINATOR
from fedgt_client.graph import Graph
from shared.config import Scalar
from shared.errors import FedGTError

START_SUPERLINK, REGISTER, RUN, START_SUPERNODE = (
    "start-superlink.sh",
    "register.sh",
    "run.sh",
    "start-supernode.sh",
)


class LocalFederation:
    """Kits made in one folder, and used in one folder a host.

    Parameters
    ----------
    folder : an empty folder for kits and hosts
    graphs : every institution's data, by its name
    mark : marks the processes that are started
    name : of the federation
    """

    dial_host = "localhost"  # what institutions dial
    listen_host = "127.0.0.1"  # what the SuperLink binds
    coordinator: KitHost
    institutions: Mapping[str, KitHost]

    def __init__(
        self, folder: Path, graphs: Mapping[str, Graph], mark: ProcessMark, *, name: str = "banks"
    ) -> None:
        self.folder = folder.absolute()  # scripts are started from elsewhere
        self.name = name
        self.kits = self.folder / "kits"
        self.spec_file = self.folder / "federation.toml"
        self.fleet_port, self.control_port, *ports = free_ports(2 + len(graphs))
        self.ports = dict(zip(graphs, ports, strict=True))
        self._mark = mark
        self.folder.mkdir(parents=True, exist_ok=True)
        self.spec_file.write_text(tomli_w.dumps(self.spec()))
        provision(self.spec_file, self.kits)
        self.coordinator = self.add_host(COORDINATOR)
        self.institutions = {institution: self.add_host(institution) for institution in graphs}
        for institution, graph in graphs.items():
            graph.save(self.institutions[institution].folder / "data")
        self.superlink: Process | None = None
        self.supernodes: dict[str, Process] = {}

    def spec(self) -> dict[str, Any]:
        """Return the content of ``federation.toml``, which the kits are made from."""
        address, listen = (
            str(Address(host=host, port=self.fleet_port))
            for host in (self.dial_host, self.listen_host)
        )
        return {
            "name": self.name,
            "coordinator": {
                "address": address,
                "listen": listen,
                "control-port": self.control_port,
            },
            "institutions": [{"name": name, "port": port} for name, port in self.ports.items()],
        }

    def add_host(self, kit: str, name: str = "") -> KitHost:
        """Make a host with a copy of a kit; ``name`` tells a second one from the first."""
        return KitHost(self.kits / kit, self.host_folder(name or kit), self._mark)

    def host_folder(self, name: str) -> Path:
        """Return the folder of a host."""
        return self.folder / "hosts" / name

    # --- starting -----------------------------------------------------------------------------

    def start(self) -> None:
        """Start the SuperLink, register the keys, and start every institution's supernode."""
        self.start_superlink()
        self.register()
        for institution in self.institutions:
            self.start_supernode(institution)

    def start_superlink(self) -> Process:
        """Start or restart the SuperLink, and wait until it listens."""
        if " " in sys.prefix:
            raise FedGTError(
                f"Flower's SuperLink does not work from {sys.prefix}, whose path has a space: "
                "install into another environment"
            )
        self.superlink = self.coordinator.start(START_SUPERLINK)
        self.coordinator.wait_for_port(self.fleet_port, self.superlink, host=self.listen_host)
        self.coordinator.wait_for_port(self.control_port, self.superlink)
        return self.superlink

    def register(self) -> dict[str, dict[str, str]]:
        """Register the kit's keys at the SuperLink; return what that changed."""
        answer = self.coordinator.call(REGISTER, "--json")
        if answer.returncode:
            raise FedGTError(f"{REGISTER} fails: {answer.stderr.strip()}")
        changes: dict[str, dict[str, str]] = json.loads(answer.stdout)
        return changes

    def start_supernode(self, institution: str) -> Process:
        """Start or restart an institution's supernode."""
        process = self.institutions[institution].start(START_SUPERNODE)
        self.supernodes[institution] = process
        return process

    # --- training -----------------------------------------------------------------------------

    def write_settings(self, settings: Mapping[str, Scalar]) -> str:
        """Write settings of a run to a file of the coordinator's kit; return its name."""
        values = {"federation": self.name, **settings}
        target = self.coordinator.folder / f"{values['run-name']}.toml"
        target.write_text(tomli_w.dumps(values))
        return target.name

    def start_run(self, settings: Mapping[str, Scalar]) -> Process:
        """Start a run with these settings, of which ``run-name`` is required."""
        return self.coordinator.start(RUN, self.write_settings(settings))

    def run_folder(self, run_name: str) -> Path:
        """Return the folder of a run's journal, checkpoints and result."""
        return self.coordinator.folder / "runs" / run_name
