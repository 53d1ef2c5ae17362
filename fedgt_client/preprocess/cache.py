"""Prepared data on disk, keyed by the graph's content and the parameters."""

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
from fedgt_client.preprocess.samplers import pool_builder
from fedgt_client.preprocess.top_k import Pool
from shared.config import RunConfig
from shared.files import open_tensors, write_tensors

logger = logging.getLogger(__name__)

# Increase it when what is computed changes: older files are then ignored.
_VERSION = 1
# Candidates kept for each node, as a multiple of the samples drawn: enough for variety.
POOL_FACTOR = 4


@dataclass(frozen=True)
class Prepared:
    """The structure of a subgraph as the model needs it."""

    pool: Pool
    encoding: NDArray[np.float32]  # shape: (n, positional dimensions)


def prepare(graph: Graph, config: RunConfig, folder: Path) -> Prepared:
    """Return sampling pool and positional encoding, computed once and then read from ``folder``."""
    builder, size = pool_builder(config.sampler), POOL_FACTOR * config.samples
    parameters = {
        "version": _VERSION,
        "sampler": config.sampler,
        "size": size,
        "dimensions": config.positional_dimensions,
    } | {name: getattr(config, name) for name in builder.settings}
    key = hashlib.sha256(
        (graph.digest() + json.dumps(parameters, sort_keys=True)).encode()
    ).hexdigest()[:32]
    path = folder / f"prepared-{key}.safetensors"
    if not path.exists():
        started = time.monotonic()
        neighbours, weights = builder.build(graph, config, size)
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
