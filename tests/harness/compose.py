"""Compose files, read as Compose reads them, and their services as processes of this machine."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from deploy.engines.kit_host import Process

Service = dict[str, Any]

_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}|\$\$")


def interpolate(text: str, values: Mapping[str, str]) -> str:
    """Replace ``${NAME}``, ``${NAME:-default}``, ``${NAME:?message}``, ``$$`` as Compose does."""

    def replaced(found: "re.Match[str]") -> str:
        name, kind, rest = found.groups()
        if name is None:
            return "$"
        if values.get(name):
            return values[name]
        assert kind != "?", f"{name} is needed: {rest}"
        return rest or ""

    return _VARIABLE.sub(replaced, text)


def load(source: Path, **values: str) -> dict[str, Any]:
    """Load a compose file with its variables replaced and merge keys merged."""
    document: dict[str, Any] = yaml.safe_load(interpolate(source.read_text(), values))
    return document


def mounts(document: Mapping[str, Any], service: Service) -> dict[str, tuple[str, bool]]:
    """Return source and whether it is read-only, by the path in the container."""
    found = {}
    for volume in service.get("volumes", ()):
        if isinstance(volume, str):
            source, target, *options = volume.split(":")
            found[target] = (source, options == ["ro"])
        else:
            found[volume["target"]] = (volume["source"], bool(volume.get("read_only")))
    for config in service.get("configs", ()):
        found[config["target"]] = (document["configs"][config["source"]]["file"], True)
    for secret in service.get("secrets", ()):
        names = secret if isinstance(secret, dict) else {"source": secret, "target": secret}
        target = f"/run/secrets/{names['target']}"
        found[target] = (document["secrets"][names["source"]]["file"], True)
    return found


def health_command(service: Service) -> list[str]:
    kind, *command = service["healthcheck"]["test"]
    assert kind == "CMD"
    return [str(part) for part in command]


@dataclass
class Container:
    """A service whose paths and addresses are those of this machine.

    ``addresses`` replaces ``name:port`` as the file says it; paths are replaced by what is mounted
    there.
    """

    name: str
    service: Service
    environment: dict[str, str]
    paths: dict[str, Path]
    addresses: dict[str, str] = field(default_factory=dict)
    log: Path = Path()

    def here(self, text: str) -> str:
        """Translate a value of the file to this machine."""
        for written, address in self.addresses.items():
            text = text.replace(written, address)
        # All at once, and the longest first: /coordinator/runs before /coordinator.
        targets = "|".join(re.escape(path) for path in sorted(self.paths, key=len, reverse=True))
        whole = rf'(?<![\w./-])({targets})(?=[/"]|$)'
        return re.sub(whole, lambda found: str(self.paths[found[1]]), text)

    def command(self, *arguments: str) -> list[str]:
        line = [*self.service["entrypoint"], *self.service.get("command", ()), *arguments]
        return [self.here(str(argument)) for argument in line]

    def start(self) -> Process:
        with self.log.open("ab") as log:
            return subprocess.Popen(
                self.command(),
                cwd=self.here(self.service.get("working_dir", "/")),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def call(self, *arguments: str, timeout: float) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*arguments),
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )

    def is_healthy(self) -> bool:
        command = [self.here(part) for part in health_command(self.service)]
        return subprocess.run(command, env=self._environment(), capture_output=True).returncode == 0

    def _environment(self) -> dict[str, str]:
        own = self.service.get("environment", {})
        return self.environment | {name: self.here(str(value)) for name, value in own.items()}
