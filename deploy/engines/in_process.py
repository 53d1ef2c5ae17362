"""A whole run in one process."""

import os
from pathlib import Path

from deploy.engines.in_process_grid import InProcessGrid
from fedgt_client.app import app, clients
from fedgt_client.data.own_folders import own_institution
from fedgt_client.data.subgraph import open_institution
from fedgt_client.node import NodeConfig
from fedgt_server.result import Result
from fedgt_server.round_loop import Observer, RoundLoop
from fedgt_server.strategy import FedGTStrategy
from shared.config import RunConfig, Scalar
from shared.errors import FedGTError


def with_output_paths(values: dict[str, Scalar], out: Path, clients: int) -> dict[str, Scalar]:
    """Return ``values`` with results and states under ``out``, waiting for all clients."""
    out = out.absolute()
    data_dir = str(values.get("data-dir") or os.environ.get("FEDGT_DATA") or "")
    return {
        "min-institutions": clients,
        # All institutions are here from the start, and nobody repairs anything during the run.
        "give-up-after": 60.0,
        **values,
        # Other processes need not share this one's working directory or environment.
        "data-dir": str(Path(data_dir).absolute()) if data_dir else "",
        "results-dir": str(out.parent),
        "run-name": out.name,
        "state-dir": str(out / "institutions"),
    }


def check_output_folder(out: Path, *, resume: bool) -> None:
    """Refuse to mix two runs in one folder, and to resume none."""
    if resume and not out.exists():
        raise FedGTError(f"{out} holds no run to resume: leave out --resume, or correct --out")
    if not resume and out.exists() and any(out.iterdir()):
        raise FedGTError(f"{out} holds another run: choose another --out, or add --resume")


def check_data(config: RunConfig, clients: int) -> None:
    """Partition the dataset before anything starts, so that an error in it is reported once."""
    node = NodeConfig(partition_id=0, num_partitions=clients)
    open_institution(own_institution(node, config), config)


def run_in_process(config: RunConfig, clients: int, observe: Observer = lambda _: None) -> Result:
    """Run ``clients`` simulated institutions one after the other in this process."""
    nodes = [NodeConfig(partition_id=index, num_partitions=clients) for index in range(clients)]
    return run_institutions(config, nodes, observe)


def run_institutions(
    config: RunConfig, nodes: list[NodeConfig], observe: Observer = lambda _: None
) -> Result:
    """Run institutions that say where their data is, as supernodes do, in this process.

    It is a rehearsal: this user decides all, and nothing leaves the machine.
    """
    here = {"worker": False, "keep-state": config.checkpoints, "rehearsal": True}
    node_configs = [node.to_flower() | here for node in nodes]
    clients.clear()  # of an earlier run in this process
    grid = InProcessGrid(app, node_configs, config.to_flower())
    folder = Path(config.results_dir) / config.run_name
    return RoundLoop(grid, FedGTStrategy(config), folder, observe).run()
