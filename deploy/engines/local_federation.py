"""A federation of processes on this machine, each started by its kit's own script.

With TLS and node keys, as on machines of their own; folders play the machines. Whoever holds the
mark ends all of them.
"""

import json
import shutil
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.engines.kit_host import PATIENCE, Machine, Process, free_ports
from deploy.engines.processes import ProcessMark, end_family
from deploy.provision.federation_spec import Address
from deploy.provision.kits import provision
from deploy.provision.node_key import make_node_key
from deploy.provision.registered_keys import COORDINATOR
from fedgt_client.graph import Graph
from shared.config import Scalar
from shared.errors import FedGTError

SUPERLINK, REGISTER, RUN, SUPERNODE = (
    "start-superlink.sh",
    "register.sh",
    "run.sh",
    "start-supernode.sh",
)


@dataclass(frozen=True)
class Network:
    """Where the machines are: by default all on the loopback of this one.

    ``prefixes`` are commands that bring a machine's programs to its place, such as ``ip netns exec
    NAME``, by the institution's name or ``coordinator``.
    """

    address: str = "localhost"  # what institutions dial
    listen: str = "127.0.0.1"  # what the SuperLink binds
    prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)


class LocalFederation:
    """Kits made in one folder, and used in as many as there are machines.

    Parameters
    ----------
    place : an empty folder for kits and machines
    graphs : every institution's data, by its name
    mark : of the processes that are started
    network : where the machines are
    own_keys : institutions that make their keys themselves
    """

    def __init__(
        self,
        place: Path,
        graphs: Mapping[str, Graph],
        mark: ProcessMark,
        *,
        name: str = "banks",
        network: Network | None = None,
        own_keys: Collection[str] = (),
    ) -> None:
        place = place.absolute()  # scripts are started from elsewhere
        self._place, self._mark, self._network = place, mark, network or Network()
        self.name = name
        self.kits = place / "kits"
        self.fleet, self.control, *ports = free_ports(2 + len(graphs))
        self.ports = dict(zip(graphs, ports, strict=True))
        place.mkdir(parents=True, exist_ok=True)
        for institution in own_keys:
            make_node_key(self._made_there(institution), institution)
        self._write_description(own_keys)
        provision(self.description, self.kits)
        self.coordinator = self.machine(COORDINATOR)
        self.institutions = {institution: self.machine(institution) for institution in graphs}
        for institution in own_keys:
            key = self._made_there(institution) / "node.key"
            shutil.copy(key, self.institutions[institution].folder)
        for institution, graph in graphs.items():
            graph.save(self.institutions[institution].folder / "data")
        self.superlink: Process | None = None
        self.supernodes: dict[str, Process] = {}

    @property
    def description(self) -> Path:
        """The file that the kits are made from."""
        return self._place / "federation.toml"

    def _made_there(self, institution: str) -> Path:
        return self._place / "made-there" / institution

    def _write_description(self, own_keys: Collection[str]) -> None:
        address, listen = (
            Address(host=host, port=self.fleet)
            for host in (self._network.address, self._network.listen)
        )
        lines = [f'name = "{self.name}"', "[coordinator]", f'address = "{address}"']
        lines += [f'listen = "{listen}"', f"control-port = {self.control}"]
        for institution, port in self.ports.items():
            lines += ["[[institutions]]", f'name = "{institution}"', f"port = {port}"]
            if institution in own_keys:
                lines.append(f'public-key = "made-there/{institution}/node.pub"')
        self.description.write_text("\n".join(lines) + "\n")

    def machine(self, kit: str, name: str = "") -> Machine:
        """A machine with a copy of a kit; ``name`` tells a second one from the first."""
        folder = self._place / "machines" / (name or kit)
        prefix = self._network.prefixes.get(name or kit, ())
        return Machine(self.kits / kit, folder, self._mark, prefix=prefix)

    def renew_coordinator(self) -> None:
        """Copy the coordinator's kit over its machine, as an operator does after a change."""
        shutil.copytree(self.kits / COORDINATOR, self.coordinator.folder, dirs_exist_ok=True)

    # --- starting and ending ------------------------------------------------------------------

    def start(self) -> None:
        """Start the coordinator, let it know the keys, and connect every institution."""
        self.start_superlink()
        self.register()
        for institution in self.institutions:
            self.start_supernode(institution)

    def start_superlink(self) -> Process:
        """Start the SuperLink, also again, and wait until it listens."""
        if " " in sys.prefix:
            raise FedGTError(
                f"Flower's SuperLink does not work from {sys.prefix}, whose path has a space: "
                "install into another environment"
            )
        self.superlink = self.coordinator.start(SUPERLINK)
        listening = "127.0.0.1" if self._network.listen == "0.0.0.0" else self._network.listen
        self.coordinator.wait_for(self.fleet, self.superlink, host=listening)
        self.coordinator.wait_for(self.control, self.superlink)
        return self.superlink

    def register(self) -> dict[str, dict[str, str]]:
        """Bring the SuperLink's keys in line with the kit; what that has changed."""
        answer = self.coordinator.call(REGISTER, "--json")
        if answer.returncode:
            raise FedGTError(f"{REGISTER} fails: {answer.stderr.strip()}")
        done: dict[str, dict[str, str]] = json.loads(answer.stdout)
        return done

    def start_supernode(self, institution: str) -> Process:
        """Connect an institution, also again."""
        process = self.institutions[institution].start(SUPERNODE)
        self.supernodes[institution] = process
        return process

    def kill_supernode(self, institution: str) -> None:
        """End all that an institution's start script has started, without a word of farewell."""
        end_family(self.supernodes.pop(institution))

    def kill_superlink(self) -> None:
        """The same for the coordinator; without process isolation its ServerApp goes as well."""
        if self.superlink is not None:
            end_family(self.superlink)
            self.superlink = None

    # --- training -----------------------------------------------------------------------------

    def write_settings(self, settings: Mapping[str, Scalar]) -> str:
        """Settings of a run as a file of the coordinator's kit; its name."""
        values = {"federation": self.name, **settings}
        # What JSON can say of a scalar is TOML as well.
        lines: Iterable[str] = (f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        target = self.coordinator.folder / f"{values['run-name']}.toml"
        target.write_text("".join(lines))
        return target.name

    def start_run(self, settings: Mapping[str, Scalar]) -> Process:
        """Train with these settings, of which ``run-name`` is needed; ends when the run does."""
        return self.coordinator.start(RUN, self.write_settings(settings))

    def run(self, settings: Mapping[str, Scalar], patience: float = 3 * PATIENCE) -> dict[str, Any]:
        """Train to the end; the result."""
        answer = self.coordinator.call(RUN, self.write_settings(settings), patience=patience)
        out = self.run_folder(str(settings["run-name"]))
        if answer.returncode or not (out / "result.json").exists():
            last = (answer.stdout + answer.stderr).strip().splitlines()[-5:]
            raise FedGTError(f"the run ended without a result: {' / '.join(last)}")
        result: dict[str, Any] = json.loads((out / "result.json").read_text())
        return result

    def run_folder(self, run_name: str) -> Path:
        """Where a run's journal, checkpoints and result are."""
        return self.coordinator.folder / "runs" / run_name
