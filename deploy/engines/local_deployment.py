"""The demo's federation of processes: a coordinator and three banks, with TLS and node keys."""

import shutil
from pathlib import Path
from typing import Any

from flwr.app import UserConfig

from deploy.cli.output import status_console
from deploy.cli.progress import round_progress
from deploy.engines.in_process import read_result, run_institutions, with_output_paths
from deploy.engines.journal_tail import JournalTail, follow
from deploy.engines.local_federation import LocalFederation
from deploy.engines.processes import marked_processes
from fedgt_client.data.consortium import DEFAULT_BANKS, KINDS
from fedgt_client.data.institutions import institutions
from fedgt_client.graph import Graph
from fedgt_server.round_loop import Observer
from shared.config import RunConfig, Scalar
from shared.errors import FedGTError

_NAMES = ("bank-a", "bank-b", "bank-c")
_GIVE_UP = 900.0  # seconds without the three of them
CHOICE = (
    "three banks of one kind, out of the six of 'consortium': with three that are unlike, "
    "so few rounds do not pay"
)


def three_banks(seed: int) -> dict[str, Graph]:
    """Banks of the first kind, out of the default consortium.

    Few banks of different kinds have little to learn from each other in few rounds.
    """
    banks = institutions("consortium", clients=DEFAULT_BANKS, setting="disjoint", seed=seed)
    return dict(zip(_NAMES, banks[:: len(KINDS)], strict=True))


def run_deployed(out: Path, rounds: int, seed: int, *, show: bool) -> dict[str, dict[str, Any]]:
    """Train the banks alone in this process, then together in processes; results by method."""
    for name in ("federation", "local"):
        shutil.rmtree(out / name, ignore_errors=True)  # of an earlier demo
    graphs = three_banks(seed)
    values: dict[str, Scalar] = {"rounds": rounds, "seed": seed}
    if show:
        status_console.print(CHOICE, soft_wrap=True, highlight=False)
    with marked_processes() as mark:
        federation = LocalFederation(out / "federation", graphs, mark)
        with round_progress(status_console, "local", rounds, show=show) as observe:
            local = _alone(federation, out / "local", values, observe)
        if show:
            text = "starting a coordinator and three institutions, which takes about a minute"
            status_console.print(text, highlight=False)
        federation.start()
        with round_progress(status_console, "fedgt", rounds, show=show) as observe:
            together = _together(federation, values, observe)
    return {"local": local, "fedgt": together}


def _alone(
    federation: LocalFederation, out: Path, values: dict[str, Scalar], observe: Observer
) -> dict[str, Any]:
    """No federation is needed for that, so no Flower either."""
    machines = federation.institutions
    places: list[UserConfig] = [
        {"institution": name, "data-dir": str(machine.folder / "data")}
        for name, machine in machines.items()
    ]
    config = RunConfig.build(with_output_paths({**values, "method": "local"}, out, len(machines)))
    return run_institutions(config, places, observe)


def _together(
    federation: LocalFederation, values: dict[str, Scalar], observe: Observer
) -> dict[str, Any]:
    quorum = len(federation.institutions)
    settings = {
        **values,
        "run-name": "fedgt",
        "min-institutions": quorum,
        "give-up-after": _GIVE_UP,
    }
    folder = federation.run_folder("fedgt")
    journal = JournalTail(folder / "journal.jsonl")
    follow(federation.start_run(settings), journal, observe)
    if journal.failure:
        raise FedGTError(f"{journal.failure} (more in {federation.coordinator.log})")
    if not (folder / "result.json").exists():
        raise FedGTError(f"the run ended without a result: see {federation.coordinator.log}")
    return read_result(folder)
