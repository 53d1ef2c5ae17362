"""Averages: personalised ones (section 4.2, equation 8), and by number of examples."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from fedgt_server.robust import capped_counts
from fedgt_server.transport import Floats, PlanBlock
from shared.wire import NUM_EXAMPLES, Arrays, Update

Array32 = NDArray[np.float32]


def softmax_weights(similarity: Floats, tau: float) -> Floats:
    """Compute α_ij = exp(τ S_ij) / Σ_k exp(τ S_ik), shape (M, M), each row a distribution.

    A similarity of −∞ leaves that client out.
    """
    left_out = np.isneginf(similarity)
    scores = np.where(left_out, -np.inf, tau * np.where(left_out, 0.0, similarity))
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def example_weights(updates: Sequence[Update], *, robust: bool = False) -> Floats:
    """Compute n_i / Σ_j n_j from the number of training examples each reports, shape (M,).

    Who does not share it counts as the mean of those who do; weights are equal where nobody does.
    With ``robust`` nobody has many more than others.
    """
    told = [u.metrics[NUM_EXAMPLES] for u in updates if NUM_EXAMPLES in u.metrics]
    usual = sum(told) / len(told) if told else 0.0
    counts = np.array([max(update.metrics.get(NUM_EXAMPLES, usual), 0.0) for update in updates])
    if robust:
        counts = capped_counts(counts)
    total = counts.sum()
    return counts / total if total > 0 else np.full(len(updates), 1.0 / len(updates))


def averaged_step(model: Arrays, updates: Sequence[Update], *, robust: bool = False) -> Arrays:
    """Compute θ + Σ_i n_i/n Δθ_i, for updates of institutions that all started from θ."""
    weights = example_weights(updates, robust=robust)
    return {
        name: np.asarray(
            value + sum(w * u.arrays[name] for w, u in zip(weights, updates, strict=True)),
            dtype=np.float32,
        )
        for name, value in model.items()
    }


def trimmed_step(model: Arrays, updates: Sequence[Update]) -> Arrays:
    """Compute θ plus the mean of the Δθ_i without the largest and smallest third of each value."""
    cut = len(updates) // 3
    found = {}
    for name, value in model.items():
        changes = np.sort(np.stack([update.arrays[name] for update in updates]), axis=0)
        kept = changes[cut : len(updates) - cut]
        found[name] = (value + kept.mean(axis=0)).astype(np.float32)
    return found


def personalised_models(weights: Array32, models: Array32) -> Array32:
    """Compute θ̂_i = Σ_j α_ij θ_j for every client: shapes (M, M) and (M, P) to (M, P).

    Columns do not depend on each other: of a large P, blocks of columns can be given.
    """
    return np.asarray(weights @ models)


def personalised_global_nodes(
    weights: Array32, global_nodes: Array32, blocks: Iterable[PlanBlock]
) -> Array32:
    """Average every client's global nodes, brought into client i's order, with α_i to μ̂_i.

    μ̂_{i,k} = Σ_j α_ij Σ_l T_{ij,kl} μ_{j,l}, a matrix product over (j, l) for each block.

    Parameters
    ----------
    weights : α, shape (M, M)
    global_nodes : μ, shape (M, n_g, d)
    blocks : T, as ``transport_blocks`` yields it
    """
    averaged = np.zeros(global_nodes.shape)
    for rows, columns, plans, _ in blocks:
        averaged[rows] += _mixed(weights[rows, columns], plans, global_nodes[columns])
        if rows != columns:
            back = plans.transpose(1, 0, 3, 2)
            averaged[columns] += _mixed(weights[columns, rows], back, global_nodes[rows])
    return averaged.astype(np.float32)


def _mixed(weights: Array32, plans: Floats, global_nodes: Array32) -> Floats:
    """Return Σ_j α_ij T_ij μ_j: shapes (A, B), (A, B, n_g, n_g), (B, n_g, d) to (A, n_g, d)."""
    clients, others, count, _ = plans.shape
    mixing = np.empty((clients, count, others, count))  # (i, k, j, l)
    np.multiply(weights[:, None, :, None], plans.transpose(0, 2, 1, 3), out=mixing)
    nodes = global_nodes.reshape(others * count, -1)
    mixed = mixing.reshape(clients * count, others * count) @ nodes
    return np.asarray(mixed.reshape(clients, count, -1))
