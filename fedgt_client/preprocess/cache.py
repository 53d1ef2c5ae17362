"""Prepared data on disk, keyed by the graph's content and the parameters."""

import hashlib
import json
import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedgt_client.graph import Graph
from fedgt_client.preprocess.laplacian import laplacian_encoding
from fedgt_client.preprocess.samplers import pool_builder
from fedgt_client.preprocess.top_k import Pool
from shared.config import RunConfig
from shared.errors import FedGTError
from shared.files import open_tensors, write_tensors

logger = logging.getLogger(__name__)

# Increase it when what is computed changes: older files are then ignored.
_VERSION = 4
# Candidates kept for each node, as a multiple of the samples drawn: enough for variety.
POOL_FACTOR = 4
# Bytes that the folder may hold: predictions for new nodes prepare another graph every time.
_LARGEST = 10 * 2**30


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
    if graph.weights is not None:
        parameters["weighted"] = True
    key = hashlib.sha256(
        (graph.digest() + json.dumps(parameters, sort_keys=True)).encode()
    ).hexdigest()[:32]
    path = folder / f"prepared-{key}.safetensors"
    if path.exists():
        with suppress(OSError):  # of a cache that is only read here
            os.utime(path)
    else:
        _compute(graph, config, size, path)
    try:
        return _read(path, graph.num_nodes, size, config.positional_dimensions)
    except FedGTError as error:
        logger.warning("%s; it is prepared again", error)
        _compute(graph, config, size, path)
        return _read(path, graph.num_nodes, size, config.positional_dimensions)


def _compute(graph: Graph, config: RunConfig, size: int, path: Path) -> None:
    started = time.monotonic()
    neighbours, weights = pool_builder(config.sampler).build(graph, config, size)
    encoding = laplacian_encoding(graph, config.positional_dimensions)
    tensors = {"neighbours": neighbours, "weights": weights, "encoding": encoding}
    write_tensors(path, tensors, durable=True)
    _remove_unused(path)
    logger.info(
        "prepared %d nodes in %.1f s: %s pool and positional encoding",
        graph.num_nodes,
        time.monotonic() - started,
        config.sampler,
    )


def _remove_unused(newest: Path) -> None:
    """Remove files that were not read for the longest time, while there are too many bytes.

    Who has one mapped keeps its content; who needs it later computes it again.
    """
    found = []
    for path in newest.parent.glob("prepared-*.safetensors"):
        with suppress(FileNotFoundError):
            found.append((path == newest, path.stat(), path))
    total = sum(status.st_size for _, status, _ in found)
    for is_newest, status, path in sorted(found, key=lambda one: (one[0], one[1].st_mtime_ns)):
        if total > _LARGEST and not is_newest:
            path.unlink(missing_ok=True)
            total -= status.st_size


def _read(path: Path, nodes: int, size: int, dimensions: int) -> Prepared:
    """Open a file, memory-mapped; raise FedGTError if it does not hold what was written."""
    tensors = open_tensors(path)
    expected = {
        "neighbours": (np.dtype(np.int32), (nodes, size)),
        "weights": (np.dtype(np.float32), (nodes, size)),
        "encoding": (np.dtype(np.float32), (nodes, dimensions)),
    }
    if {name: (array.dtype, array.shape) for name, array in tensors.items()} != expected:
        raise FedGTError(f"{path} holds other arrays than expected")
    neighbours, weights = tensors["neighbours"], tensors["weights"]
    if not np.array_equal(neighbours >= 0, weights > 0) or (neighbours >= nodes).any():
        raise FedGTError(f"{path} is damaged: its candidates are not nodes of the graph")
    if not (np.isfinite(weights.max(initial=0.0)) and np.isfinite(tensors["encoding"]).all()):
        raise FedGTError(f"{path} is damaged: it holds values that are not finite")
    return Prepared((neighbours, weights), tensors["encoding"])
