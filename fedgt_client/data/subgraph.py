"""Open the subgraph of this institution."""

import hashlib
from pathlib import Path

from flwr.app import UserConfig

from fedgt_client.data.partition import institution_graphs
from fedgt_client.folders import cache_dir
from fedgt_client.graph import Graph
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.files import atomic_folder

# Part of the cache's key: increase it when partitions or splits change.
_VERSION = 1


def open_institution(node_config: UserConfig, config: RunConfig) -> Graph:
    """Return the institution's own data, or a simulated institution's part of a named dataset."""
    if folder := node_config.get("data-dir"):
        return Graph.open(Path(str(folder)))
    if "partition-id" not in node_config or "num-partitions" not in node_config:
        raise FedGTError(
            "this supernode does not say where its data is: "
            "add data-dir=\"…\" (made by 'fedgt data import') to its --node-config"
        )
    return _share(config, int(node_config["partition-id"]), int(node_config["num-partitions"]))


def _share(config: RunConfig, index: int, clients: int) -> Graph:
    """Return part ``index`` of the configured dataset, cached: processes partition it once."""
    key = f"{_VERSION}/{config.dataset}/{config.setting}/{clients}/{config.seed}/{config.data_dir}"
    name = f"{config.dataset}-{config.setting}-{clients}-{config.seed}"
    folder = cache_dir() / "partitions" / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    if config.dataset == "consortium" or not folder.exists():
        parts = institution_graphs(
            config.dataset,
            clients=clients,
            setting=config.setting,
            seed=config.seed,
            data_dir=config.data_folder,
        )
        if config.dataset == "consortium":
            return parts[index]
        try:
            with atomic_folder(folder) as staging:
                for number, part in enumerate(parts):
                    part.save(staging / str(number))
        except FedGTError:
            # Another process may have cached the same partition first.
            if not folder.exists():
                raise
    return Graph.open(folder / str(index))
