"""All blocks of the transport between clients, put together."""

import numpy as np

from fedgt_server.transport import Floats, transport_blocks


def transport(global_nodes: Floats, plan: str, size: int = 128) -> tuple[Floats, Floats]:
    """Return S, shape (M, M), and T, shape (M, M, n_g, n_g), from nodes of shape (M, n_g, d)."""
    clients, count, _ = global_nodes.shape
    similarity = np.full((clients, clients), np.nan)
    plans = np.full((clients, clients, count, count), np.nan)
    for block in transport_blocks(global_nodes, plan, size):
        similarity[block.rows, block.columns] = block.similarity
        similarity[block.columns, block.rows] = block.similarity.T
        plans[block.rows, block.columns] = block.plans
        plans[block.columns, block.rows] = block.plans.transpose(1, 0, 3, 2)
    return similarity, plans
