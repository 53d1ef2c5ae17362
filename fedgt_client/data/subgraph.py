"""Open the subgraph of this institution."""

import hashlib
from pathlib import Path

from fedgt_client.data.partition import institution_graphs
from fedgt_client.folders import cache_dir
from fedgt_client.graph import Graph
from fedgt_client.node import NodeConfig
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.files import atomic_folder

# Part of the cache's key: increase it when partitions or splits change.
_VERSION = 1


def open_institution(node: NodeConfig, config: RunConfig) -> Graph:
    """Open the institution's own data, or a simulated institution's share of a named dataset."""
    if node.data_dir:
        return Graph.open(Path(node.data_dir))
    assert node.partition_id is not None  # NodeConfig refuses a node without data
    assert node.num_partitions is not None
    return _share(config, node.partition_id, node.num_partitions)


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
