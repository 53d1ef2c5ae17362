"""What was prepared once stays on disk, keyed by the graph's content and the parameters."""

import hashlib
import json
import logging
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgt_client.graph import Graph
from fedgt_client.preprocess.laplacian import laplacian_encoding
from fedgt_client.preprocess.pools import build_pool
from fedgt_client.preprocess.top_k import Pool
from shared.config import RunConfig
from shared.files import open_tensors, write_tensors

logger = logging.getLogger(__name__)

# Raise it when what is computed changes: older files are then left alone.
_VERSION = 1
# Candidates kept for each node, in draws: enough that samples vary from epoch to epoch.
_POOL_FACTOR = 4


@dataclass(frozen=True)
class Prepared:
    """The structure of a subgraph as the model needs it."""

    pool: Pool
    encoding: NDArray[np.float32]  # shape: (n, positional dimensions)


def prepare(graph: Graph, config: RunConfig, folder: Path) -> Prepared:
    """Sampling pool and positional encoding, from ``folder`` where they are there already."""
    parameters = {
        "version": _VERSION,
        "sampler": config.sampler,
        "size": _POOL_FACTOR * config.samples,
        "nu": config.ppr_nu,
        "tolerance": config.ppr_tolerance,
        "seed": config.seed if config.sampler == "graphsage" else 0,
        "dimensions": config.positional_dimensions,
    }
    key = hashlib.sha256(
        (graph.digest() + json.dumps(parameters, sort_keys=True)).encode()
    ).hexdigest()[:32]
    path = folder / f"prepared-{key}.safetensors"
    if not path.exists():
        started = time.monotonic()
        neighbours, weights = build_pool(
            graph,
            config.sampler,
            size=_POOL_FACTOR * config.samples,
            nu=config.ppr_nu,
            tolerance=config.ppr_tolerance,
            seed=config.seed,
        )
        encoding = laplacian_encoding(graph, config.positional_dimensions)
        write_tensors(path, {"neighbours": neighbours, "weights": weights, "encoding": encoding})
        logger.info(
            "prepared %d nodes in %.1f s: %s pool and positional encoding",
            graph.num_nodes,
            time.monotonic() - started,
            config.sampler,
        )
    tensors = open_tensors(path)
    return Prepared((tensors["neighbours"], tensors["weights"]), tensors["encoding"])
