"""A whole run on one machine, by either engine."""

import json
import os
from pathlib import Path
from typing import Any

from flwr.app import UserConfig

from deploy.engines.in_process_grid import InProcessGrid
from fedgt_client.app import app
from fedgt_client.data.subgraph import open_institution
from fedgt_server.methods import server_method
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
        # On one machine nobody comes later, and nobody mends anything meanwhile.
        "give-up-after": 60.0,
        **values,
        # Other processes need not share this one's working directory or environment.
        "data-dir": str(Path(data_dir).absolute()) if data_dir else "",
        "results-dir": str(out.parent),
        "run-name": out.name,
        "state-dir": str(out / "institutions"),
    }


def check_output_folder(out: Path, *, resume: bool) -> None:
    """Refuse to mix two runs in one folder."""
    if not resume and out.exists() and any(out.iterdir()):
        raise FedGTError(f"{out} holds another run: choose another --out, or add --resume")


def check_data(config: RunConfig, clients: int) -> None:
    """Divide the dataset before anything starts: its faults are better told once, here."""
    open_institution({"partition-id": 0, "num-partitions": clients}, config)


def run_in_process(
    config: RunConfig, clients: int, observe: Observer = lambda _: None
) -> dict[str, Any]:
    """Run ``clients`` simulated institutions one after the other in this process."""
    shares: list[UserConfig] = [
        {"partition-id": index, "num-partitions": clients} for index in range(clients)
    ]
    return run_institutions(config, shares, observe)


def run_institutions(
    config: RunConfig, node_configs: list[UserConfig], observe: Observer = lambda _: None
) -> dict[str, Any]:
    """Run institutions whose node configs say, as those of supernodes do, where their data is."""
    here: list[UserConfig] = [
        {**node_config, "worker": False, "keep-state": config.checkpoints}
        for node_config in node_configs
    ]
    grid = InProcessGrid(app, here, config.to_flower())
    strategy = FedGTStrategy(config, server_method(config))
    return RoundLoop(grid, strategy, Path(config.results_dir) / config.run_name, observe).run()


def read_result(out: Path) -> dict[str, Any]:
    """Read the result of a run in another process."""
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    return result
