"""Split labelled nodes into training, validation and test."""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedgt_client.data import RandomStream
from fedgt_client.graph import UNLABELLED, Graph
from shared.errors import FedGTError

Ratios = tuple[float, float, float]
Mask = NDArray[np.bool_]

# Section 5.1 of the paper; Appendix "More results" for Louvain, after FedSage.
DEFAULT_RATIOS: Ratios = (0.2, 0.4, 0.4)
LOUVAIN_RATIOS: Ratios = (0.6, 0.2, 0.2)
ARXIV_RATIOS: Ratios = (0.05, 0.475, 0.475)


def split_ratios(dataset: str, setting: str) -> Ratios:
    """Return the paper's training, validation and test shares for a dataset and setting."""
    if setting == "louvain":
        return LOUVAIN_RATIOS
    return ARXIV_RATIOS if dataset == "ogbn-arxiv" else DEFAULT_RATIOS


def random_split(num_nodes: int, ratios: Ratios, seed: int) -> tuple[Mask, Mask, Mask]:
    """Cut a seeded permutation of the nodes into training, validation and test masks.

    Every node is in exactly one part, and a part's size is its share to within one node. Each
    mask has shape (num_nodes,).
    """
    if num_nodes < 0:
        raise FedGTError(f"num_nodes is {num_nodes}, expected 0 or more")
    if seed < 0:
        raise FedGTError(f"seed is {seed}, expected 0 or more")
    shares_valid = all(math.isfinite(share) and share >= 0 for share in ratios)
    if len(ratios) != 3 or not shares_valid or not math.isclose(sum(ratios), 1.0, abs_tol=1e-6):
        raise FedGTError(f"split ratios are {ratios}, expected three shares that sum to 1")
    order = np.random.default_rng([seed, RandomStream.SPLIT]).permutation(num_nodes)
    first, second = round(num_nodes * ratios[0]), round(num_nodes * (ratios[0] + ratios[1]))
    train, val, test = (np.zeros(num_nodes, np.bool_) for _ in range(3))
    train[order[:first]] = True
    val[order[first:second]] = True
    test[order[second:]] = True
    return train, val, test


def split_graph(graph: Graph, ratios: Ratios, seed: int) -> Graph:
    """Return the graph with its labelled nodes split; unlabelled nodes are in no mask."""
    labelled = np.flatnonzero(graph.labels != UNLABELLED)
    masks = tuple(np.zeros(graph.num_nodes, np.bool_) for _ in range(3))
    for mask, chosen in zip(masks, random_split(len(labelled), ratios, seed), strict=True):
        mask[labelled] = chosen
    train, val, test = masks
    return replace(graph, train=train, val=val, test=test)
