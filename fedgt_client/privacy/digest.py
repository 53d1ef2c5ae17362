"""Which data it is: what a ledger of releases is kept for."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedgt_client.graph import Graph


def data_digest(graph: Graph) -> str:
    """Return the SHA-256 of an institution's links, by which its data is known.

    Unlike ``Graph.digest`` it leaves out what another import of the same tables changes: the
    split, the names, and what a schema, which others may propose, makes of columns: features, and
    which classes there are in which order. Otherwise a new split or schema would seem to be new
    data of which nothing was released. Without any links, data is known by its labels.
    """
    return _digest(graph, with_labels=not len(graph.indices))


def earlier_data_digest(graph: Graph) -> str:
    """Return the digest that FedGT 0.1.0 knew the same data by: of its links and labels."""
    return _digest(graph, with_labels=True)


def _digest(graph: Graph, *, with_labels: bool) -> str:
    digest = hashlib.sha256()
    arrays: list[tuple[str, NDArray[Any], type[np.integer[Any]]]] = [
        ("indptr", graph.indptr, np.int64),
        ("indices", graph.indices, np.int32),
    ]
    if with_labels:
        arrays.append(("labels", graph.labels, np.int64))
    for name, array, kind in arrays:
        digest.update(f"{name}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array, dtype=kind).data)
    return digest.hexdigest()
