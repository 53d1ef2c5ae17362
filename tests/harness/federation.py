"""A local federation that tests can disturb: kill its processes, move its hosts, renew its kits."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deploy.engines.kit_host import TIMEOUT, KitHost
from deploy.engines.local_federation import RUN, LocalFederation
from deploy.engines.processes import ProcessMark
from deploy.node_file import NODE_FILE
from deploy.provision.node_key import make_node_key
from deploy.provision.registered_keys import COORDINATOR
from fedgt_client.graph import Graph
from fedgt_server.result import Result, read_result
from shared.config import Scalar
from shared.errors import FedGTError
from tests.harness.policies import ANYTHING
from tests.harness.processes import kill_process_tree

_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 2)"


@dataclass(frozen=True)
class Network:
    """Where the hosts are: by default all on the loopback of this machine.

    ``prefixes`` are commands that run a host's programs elsewhere, such as ``ip netns exec NAME``,
    by the institution's name or ``coordinator``.
    """

    dial_host: str = "localhost"
    listen_host: str = "127.0.0.1"
    prefixes: Mapping[str, Sequence[str]] = field(default_factory=dict)


class HarnessHost(KitHost):
    """A host whose processes can be killed; ``prefix`` stands before every command."""

    def __init__(
        self, kit: Path, folder: Path, mark: ProcessMark, *, prefix: Sequence[str] = ()
    ) -> None:
        super().__init__(kit, folder, mark)
        self._prefix = tuple(prefix)
        self._own = ProcessMark("FEDGT_HOST")
        self.environment |= self._own.environment()

    def command(self, *arguments: str) -> list[str]:
        return [*self._prefix, *arguments]

    def accepts(self, host: str, port: int) -> bool:
        if not self._prefix:
            return super().accepts(host, port)
        probe = self.command(sys.executable, "-c", _CONNECT, host, str(port))
        return subprocess.run(probe, capture_output=True).returncode == 0

    def kill(self) -> None:
        """Kill every process of this host at once, as a power cut would."""
        self._own.end()

    def doctor(self) -> dict[str, dict[str, Any]]:
        """Return the findings of ``fedgt doctor`` by the names of the checks."""
        answer = self.call("fedgt", "doctor", ".", "--json")
        if answer.returncode not in (0, 1):
            raise FedGTError(f"fedgt doctor fails: {answer.stderr.strip()}")
        return {check["name"]: check for check in json.loads(answer.stdout)["checks"]}


class HarnessFederation(LocalFederation):
    """A local federation with ``own_keys`` of institutions, on hosts of any ``network``."""

    coordinator: HarnessHost
    institutions: dict[str, HarnessHost]

    def __init__(
        self,
        folder: Path,
        graphs: Mapping[str, Graph],
        mark: ProcessMark,
        *,
        network: Network | None = None,
        own_keys: Collection[str] = (),
    ) -> None:
        self._network = network or Network()
        self._own_keys = {name: folder.absolute() / "own-keys" / name for name in own_keys}
        self.dial_host = self._network.dial_host
        self.listen_host = self._network.listen_host
        for name, key_folder in self._own_keys.items():
            make_node_key(key_folder, name)
        super().__init__(folder, graphs, mark)
        for name in self.institutions:
            self.allow(name, ANYTHING)
        for name, key_folder in self._own_keys.items():
            shutil.copy(key_folder / "node.key", self.institutions[name].folder)

    def spec(self) -> dict[str, Any]:
        spec = super().spec()
        for institution in spec["institutions"]:
            if key_folder := self._own_keys.get(institution["name"]):
                institution["public-key"] = str(key_folder / "node.pub")
        return spec

    def add_host(self, kit: str, name: str = "") -> HarnessHost:
        prefix = self._network.prefixes.get(name or kit, ())
        return HarnessHost(
            self.kits / kit, self.host_folder(name or kit), self._mark, prefix=prefix
        )

    def allow(self, institution: str, policy: Mapping[str, Any]) -> None:
        """Set keys of an institution's policy, the last table of its node file."""
        source = self.institutions[institution].folder / NODE_FILE
        text = source.read_text()
        for key, value in policy.items():
            text = re.sub(rf"^#? ?{key} = .*\n", "", text, flags=re.MULTILINE)
            text += f"{key} = {json.dumps(value)}\n"
        source.write_text(text)

    def renew_coordinator(self) -> None:
        """Copy the coordinator's kit over its host, as an operator does after a change."""
        shutil.copytree(self.kits / COORDINATOR, self.coordinator.folder, dirs_exist_ok=True)

    def kill_supernode(self, institution: str) -> None:
        """Kill everything that an institution's start script has started."""
        kill_process_tree(self.supernodes.pop(institution))

    def kill_superlink(self) -> None:
        """Kill the SuperLink and its children, of which the ServerApp is one."""
        if self.superlink is not None:
            kill_process_tree(self.superlink)
            self.superlink = None

    def run(self, settings: Mapping[str, Scalar], timeout: float = 3 * TIMEOUT) -> Result:
        """Train to the end; return the result."""
        answer = self.coordinator.call(RUN, self.write_settings(settings), timeout=timeout)
        result = read_result(self.run_folder(str(settings["run-name"])))
        if answer.returncode or result is None:
            last = (answer.stdout + answer.stderr).strip().splitlines()[-5:]
            raise FedGTError(f"the run ended without a result: {' / '.join(last)}")
        return result
