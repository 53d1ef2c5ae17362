"""Where nodes and global nodes of two institutions lie, for the t-SNE figure."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from deploy.settings import resolve_settings
from experiments.job import Job
from experiments.records import rounded, without_places
from shared.config import RunConfig
from shared.errors import FedGTError

_INSTITUTIONS = (0, 1)


def embeddings(job: Job, scratch: Path, on_round: Callable[[int], None]) -> dict[str, Any]:
    """Train, then project both institutions' nodes and global nodes to the plane together."""
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise FedGTError("t-SNE needs scikit-learn: pip install scikit-learn") from None
    from deploy.engines.in_process import check_data, run_in_process, with_output_paths

    values = job.values() | {"checkpoints": True}  # what institutions keep is read afterwards
    config = resolve_settings(
        with_output_paths(values, scratch / "run", job.clients), preset=job.preset
    )
    check_data(config, job.clients)
    run_in_process(config, job.clients, lambda event: on_round(event.round))
    nodes, stars, labels = [], [], []
    for index in _INSTITUTIONS:
        found = _represented(config, index, job.clients)
        nodes.append(found[0])
        stars.append(found[1])
        labels.append(found[2])
    points = np.concatenate([*nodes, *stars])
    perplexity = min(30.0, (len(points) - 1) / 3)
    # By direction, as the coordinator compares global nodes: a mean of points is shorter than they.
    projection = TSNE(perplexity=perplexity, metric="cosine", init="pca", random_state=job.seed)
    places = projection.fit_transform(points)
    if not math.isfinite(float(places.sum())):
        raise FedGTError("t-SNE gave points that are not finite")
    sizes = [len(part) for part in (*nodes, *stars)]
    parts = np.split(places, np.cumsum(sizes)[:-1])
    return {
        "institutions": [
            {
                "nodes": _plain(parts[place]),
                "labels": labels[place].tolist(),
                "global_nodes": _plain(parts[place + len(_INSTITUTIONS)]),
            }
            for place in range(len(_INSTITUTIONS))
        ],
        "config": without_places(config),
    }


def _represented(
    config: RunConfig, index: int, clients: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes (n, d), global nodes (n_g, d) and labels after an institution's last round."""
    from fedgt_client.data.subgraph import open_institution
    from fedgt_client.methods.fedgt import FedGT
    from fedgt_client.node import NodeConfig
    from fedgt_client.state import StateStore

    node = NodeConfig(partition_id=index, num_partitions=clients)
    graph = open_institution(node, config)
    store = StateStore(Path(config.state_dir), config.federation, config.run_name, node.name)
    method = FedGT(graph, config, node.name)
    method.load_state_dict(store.load(store.rounds()[-1]))
    nodes, global_nodes = method.representations()
    return nodes, global_nodes, np.asarray(graph.labels)


def _plain(points: np.ndarray) -> list[list[float | None]]:
    return [[rounded(float(value), 2) for value in point] for point in points]
