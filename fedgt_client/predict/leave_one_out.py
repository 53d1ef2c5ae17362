"""What a node's prediction leans on, for methods without attention: links taken away."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedgt_client.csr import weighted_csr
from fedgt_client.graph import Graph
from fedgt_client.predict.model import Model
from shared.errors import FedGTError

MOST = 32  # neighbours, as each costs a pass over the graph


def linked_nodes(graph: Graph, node: int) -> NDArray[np.int64]:
    """Return the nodes with a link to or from ``node``, of many the heaviest links, ascending."""
    sources, targets = graph.arcs()
    weights = np.ones(len(sources)) if graph.weights is None else graph.weights
    total = np.zeros(graph.num_nodes)
    leaving, coming = sources == node, targets == node
    np.add.at(total, targets[leaving], weights[leaving])
    np.add.at(total, sources[coming], weights[coming])
    strongest = np.argsort(-total, kind="stable")[:MOST]
    return np.sort(strongest[total[strongest] > 0])


def without_link(graph: Graph, node: int, other: int) -> Graph:
    """Return the graph without links between two nodes."""
    sources, targets = graph.arcs()
    ends = (node, other)
    kept = ~(np.isin(sources, ends) & np.isin(targets, ends))
    weights = None if graph.weights is None else graph.weights[kept]
    indptr, indices, weights = weighted_csr(sources[kept], targets[kept], weights, graph.num_nodes)
    return replace(graph, indptr=indptr, indices=indices, weights=weights)


def node_scores(model: Model, graph: Graph, node: int) -> NDArray[np.float32]:
    """Return the scores of one node, shape (classes,)."""
    return np.asarray(model.method(graph).predict(np.array([node]))[0], np.float32)


def check_repeatable(model: Model, graph: Graph, node: int) -> None:
    """Raise FedGTError for a method that draws at random in prediction."""
    method, alone = model.method(graph), np.array([node])
    if (method.predict(alone) != method.predict(alone)).any():
        raise FedGTError(
            f"a model of method {model.record.config['method']} cannot be explained: "
            "it draws neighbours at random, so scores differ without anything taken away"
        )
