"""A run through Flower's own simulation: SuperLink, ServerApp, and ClientApps in Ray.

It is what ``flwr run . local`` does from a checkout, in its own Flower home: nothing of the
user's Flower settings is read or written, and nothing is left running.
"""

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import tomli_w

from deploy.engines.app_bundle import stage_flower_app
from deploy.engines.journal_tail import JournalTail, follow_run
from deploy.engines.ports import free_ports
from deploy.engines.processes import marked_processes
from fedgt_client.folders import cache_dir, state_dir
from fedgt_server.result import Result, read_result
from fedgt_server.round_loop import Observer
from shared.config import RunConfig
from shared.errors import FedGTError

INSTALL_SIMULATION = "pip install 'fedgt[simulation]'"
_START = 90.0  # seconds for the SuperLink to listen
_POLL = 0.3  # seconds


def run_simulation(config: RunConfig, clients: int, observe: Observer = lambda _: None) -> Result:
    """Run ``clients`` simulated institutions; what Flower says is in ``flower.log``.

    Raises
    ------
    FedGTError
        In one line, with the reason where the coordinator gave one.
    """
    if not is_simulation_installed():
        raise FedGTError(f"Flower's simulation needs Ray: {INSTALL_SIMULATION}")
    out = Path(config.results_dir) / config.run_name
    out.mkdir(parents=True, exist_ok=True)
    (out / "result.json").unlink(missing_ok=True)  # of the run that is resumed
    with (
        # Short: Ray puts sockets there, whose paths may not exceed 107 characters.
        tempfile.TemporaryDirectory(
            prefix=f"fg{os.getpid()}-", dir=_short_folder(), ignore_cleanup_errors=True
        ) as scratch,
        (out / "flower.log").open("a") as log,
        marked_processes() as mark,
    ):
        simulation = _Simulation(Path(scratch), log, mark.environment())
        journal = JournalTail(out / "journal.jsonl")
        simulation.start_superlink()
        flwr = simulation.start_run(config, clients)
        follow_run(flwr, journal, observe)
    if journal.failure:
        raise FedGTError(f"{journal.failure} (more in {out / 'flower.log'})")
    if result := read_result(out):
        return result
    raise FedGTError(f"Flower's simulation ended without a result: see {out / 'flower.log'}")


class _Simulation:
    """A SuperLink of its own, and one run on it."""

    def __init__(self, scratch: Path, log: IO[str], mark: dict[str, str]) -> None:
        self._log = log
        [self._port] = free_ports(1)
        self._app = stage_flower_app(scratch / "fedgt")
        self._settings = scratch / "settings.toml"
        self._home = scratch / "flower"
        self._programs = _programs(scratch)
        self._environment = os.environ | _environment(scratch, self._home) | mark
        # Flower starts its programs by name.
        self._environment["PATH"] = os.pathsep.join(
            (str(self._programs), os.environ.get("PATH", ""))
        )
        self._environment.pop("RAY_ADDRESS", None)  # of a cluster that is not ours
        self._home.mkdir()
        (self._home / "config.toml").write_text(
            tomli_w.dumps(
                {"superlink": {"fedgt": {"address": f"127.0.0.1:{self._port}", "insecure": True}}}
            )
        )

    def start_superlink(self) -> None:
        """Start the SuperLink and wait until it listens."""
        address = ("--host", "127.0.0.1", "--port", str(self._port))
        superlink = self._start("flower-superlink", "--insecure", "--simulation", *address)
        deadline = time.monotonic() + _START
        while not self._is_listening():
            if superlink.poll() is not None or time.monotonic() > deadline:
                raise FedGTError(f"Flower's SuperLink did not start: see {self._log.name}")
            time.sleep(_POLL)

    def start_run(self, config: RunConfig, clients: int) -> "subprocess.Popen[bytes]":
        """Start a process that submits the app and its settings; it ends when the run does."""
        self._settings.write_text(tomli_w.dumps(config.to_flower()))
        # A worker a core, but none without work.
        workers = min(clients, os.cpu_count() or 1)
        federation = (
            f"num-supernodes={clients} client-resources-num-cpus=1 init-args-num-cpus={workers}"
        )
        return self._start(
            *("flwr", "run", str(self._app), "fedgt", "--stream"),
            *("--run-config", str(self._settings), "--federation-config", federation),
        )

    def _start(self, command: str, *arguments: str) -> "subprocess.Popen[bytes]":
        # A session of its own: Ctrl-C reaches this process alone, which then ends the others.
        return subprocess.Popen(
            [str(self._programs / command), *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _is_listening(self) -> bool:
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(f"http://127.0.0.1:{self._port}/health", timeout=1):
                return True
        except (urllib.error.URLError, OSError):
            return False


def _programs(scratch: Path) -> Path:
    """Return the folder of Flower's programs, by a path without spaces.

    Ray starts its workers by a line that it takes apart at spaces, and would wait for them for
    ever: they start from a link to this environment instead.
    """
    beside = Path(sys.executable).parent
    if " " not in str(beside):
        return beside
    (scratch / "environment").symlink_to(sys.prefix)
    programs = scratch / "programs"
    programs.mkdir()
    for entry in entry_points(group="console_scripts"):
        if entry.dist and entry.dist.name == "flwr":
            script = programs / entry.name
            script.write_text(
                f"#!{scratch}/environment/bin/python\nimport sys\n"
                f"from {entry.module} import {entry.attr}\nsys.exit({entry.attr}())\n"
            )
            script.chmod(0o755)
    return programs


def _environment(scratch: Path, home: Path) -> dict[str, str]:
    here = ",".join(filter(None, (os.environ.get("NO_PROXY"), "127.0.0.1,localhost")))
    return {
        "PYTHONUNBUFFERED": "1",
        "NO_PROXY": here,
        "no_proxy": here,
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        # Or every run would make a virtual environment of its own, from the network.
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_TMPDIR": str(scratch),
        "RAY_USAGE_STATS_ENABLED": "0",
        # Or Ray would hide the graphics card from institutions that ask for no whole one.
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        # Workers need not share this process's working directory.
        "FEDGT_CACHE": str(cache_dir().absolute()),
        "FEDGT_STATE": str(state_dir().absolute()),
    }


def is_simulation_installed() -> bool:
    """Tell whether Ray, which Flower's simulation needs, is installed."""
    return find_spec("ray") is not None


def _short_folder() -> str | None:
    return "/tmp" if os.access("/tmp", os.W_OK) else None
