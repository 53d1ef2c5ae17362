"""Optimal transport between the global nodes of clients, section 4.2, equation 7."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Floats = NDArray[np.float64]

# Share of the energy of noisy vectors that is taken to be signal at least.
_LEAST_SIGNAL = 0.1
# Bijections sought at once from which on a compiled solver pays: there are hundreds of clients.
_MANY = 10_000


def unit_rows(vectors: Floats) -> Floats:
    """Scale each vector to length 1 (a zero vector stays zero), shape (…, d)."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12))


def centred(global_nodes: Floats) -> Floats:
    """Subtract from global nodes what all clients have in common, shape (M, n_g, d).

    Representations share one large direction; left in, it makes every cosine 1 within a few
    rounds and the personalised average a plain one.
    """
    return np.asarray(global_nodes - global_nodes.mean(axis=(0, 1)))


def hungarian(cosines: Floats) -> Floats:
    """Return the bijections π that maximise Σ_k cosine[k, π(k)], as 0/1 plans, shape (…, n, n)."""
    costs = -cosines.reshape(-1, *cosines.shape[-2:])
    columns = np.empty(costs.shape[:2], np.intp)
    if len(costs) >= _MANY:
        from fedgt_server.assignment import assign  # numba takes a second to load and compile

        assign(costs, columns)
    else:
        for cost, chosen in zip(costs, columns, strict=True):
            chosen[:] = linear_sum_assignment(cost)[1]
    plans = np.zeros_like(costs)
    np.put_along_axis(plans, columns[..., None], 1.0, axis=2)
    return plans.reshape(cosines.shape)


def sinkhorn(
    cosines: Floats, *, entropy: float = 0.05, tolerance: float = 1e-4, iterations: int = 5000
) -> Floats:
    """Return doubly stochastic plans T that maximise Σ T·cosine + entropy · H(T) (Cuturi 2013).

    In place of a bijection, each node of one client is spread over the other's; rows and columns
    sum to 1 up to ``tolerance``. Scaling happens on logarithms, which do not underflow at small
    ``entropy``. Shape: (…, n, n).
    """
    log_plans = (cosines / entropy).reshape(-1, *cosines.shape[-2:])
    unfinished = np.arange(len(log_plans))  # plans whose rows do not sum to 1 yet
    for _ in range(iterations):
        rows = _log_sum_exp(log_plans[unfinished], axis=2)
        log_plans[unfinished] -= rows
        unfinished = unfinished[np.abs(rows).max(axis=(1, 2)) >= tolerance]
        if not len(unfinished):
            break
        log_plans[unfinished] -= _log_sum_exp(log_plans[unfinished], axis=1)
    # Rows last: they are what averages are taken over.
    return np.asarray(np.exp(log_plans - _log_sum_exp(log_plans, axis=2))).reshape(cosines.shape)


def _log_sum_exp(values: Floats, axis: int) -> Floats:
    largest = values.max(axis=axis, keepdims=True)
    return np.asarray(largest + np.log(np.exp(values - largest).sum(axis=axis, keepdims=True)))


def identity(cosines: Floats) -> Floats:
    """Align node k with node k: no transport at all. Shape: (…, n, n)."""
    return np.broadcast_to(np.eye(cosines.shape[-1]), cosines.shape)


PLANS = {"hungarian": hungarian, "sinkhorn": sinkhorn, "none": identity}


class PlanBlock(NamedTuple):
    """The transport between the clients of two ranges; A and B are their lengths."""

    rows: slice
    columns: slice
    plans: Floats  # T, shape (A, B, n_g, n_g); T[i, j] brings j's nodes into i's order
    similarity: Floats  # S, shape (A, B)


def transport_blocks(global_nodes: Floats, plan: str, size: int = 128) -> Iterator[PlanBlock]:
    """Yield the transport between every two clients, in blocks of ``size`` by ``size`` clients.

    S_ij = (1 / n_g) Σ_kl T_kl cos(μ_{i,k}, μ_{j,l}); with the best bijection as T, equation 7.
    S is symmetric and so is the transport, so that only blocks on and above the diagonal are
    computed. All plans at once would take M² n_g² numbers: 80 GB for 10,000 clients.

    Parameters
    ----------
    global_nodes : shape (M, n_g, d)
    plan : a name of ``PLANS``
    """
    clients, count, width = global_nodes.shape
    unit = unit_rows(global_nodes)
    ranges = [slice(start, min(start + size, clients)) for start in range(0, clients, size)]
    for index, rows in enumerate(ranges):
        for columns in ranges[index:]:
            cosines = unit[rows].reshape(-1, width) @ unit[columns].reshape(-1, width).T
            cosines = cosines.reshape(-1, count, cosines.shape[1] // count, count)
            cosines = np.ascontiguousarray(cosines.transpose(0, 2, 1, 3))  # (A, B, n_g, n_g)
            solve = _plans_within if rows == columns else _plans_between
            plans, similarity = solve(cosines, plan)
            yield PlanBlock(rows, columns, plans, similarity)


def transport_similarity(global_nodes: Floats, plan: str) -> Floats:
    """Return S of all clients, shape (M, M), symmetric, 1 on the diagonal."""
    similarity = np.empty((len(global_nodes), len(global_nodes)))
    for block in transport_blocks(global_nodes, plan):
        similarity[block.rows, block.columns] = block.similarity
        similarity[block.columns, block.rows] = block.similarity.T
    return similarity


def _plans_between(cosines: Floats, plan: str) -> tuple[Floats, Floats]:
    """Return plans and similarities of different clients, shapes (A, B, n, n) and (A, B)."""
    plans = PLANS[plan](cosines)
    return plans, np.einsum("...kl,...kl->...", plans, cosines) / cosines.shape[-1]


def _plans_within(cosines: Floats, plan: str) -> tuple[Floats, Floats]:
    """Return plans and similarities among the same clients: each is like itself."""
    clients, count = cosines.shape[1:3]
    plans, similarity = np.empty_like(cosines), np.eye(clients)
    plans[np.arange(clients), np.arange(clients)] = np.eye(count)
    first, second = np.triu_indices(clients, 1)
    plans[first, second], similarity[first, second] = _plans_between(cosines[first, second], plan)
    plans[second, first] = plans[first, second].transpose(0, 2, 1)
    similarity[second, first] = similarity[first, second]
    return plans, similarity


def denoised(similarity: Floats, global_nodes: Floats, noise_variance: float) -> Floats:
    """Estimate the similarity as it would be without the privacy noise on every coordinate.

    Independent noise leaves inner products as they are in expectation, but lengthens the vectors
    and so shrinks every cosine by the same factor, which is known: the noise is public. What is
    made of released values costs no further privacy.

    Shapes: similarity (M, M), global_nodes (M, n_g, d).
    """
    energy = float((global_nodes**2).sum(axis=-1).mean())
    signal = energy - global_nodes.shape[-1] * noise_variance
    # Where noise drowns the signal, its estimate may be tiny or negative.
    factor = energy / max(signal, _LEAST_SIGNAL * energy, 1e-12)
    restored = similarity * factor
    np.clip(restored, -1.0, 1.0, out=restored)
    np.fill_diagonal(restored, 1.0)
    return np.asarray(restored)


def spread(similarity: Floats) -> tuple[float, float]:
    """Return mean and standard deviation of the similarities between different clients."""
    clients = len(similarity)
    if clients < 2:
        return 0.0, 0.0
    # Row by row: a copy of the matrix without its diagonal takes as much memory again.
    others = (np.delete(row, index) for index, row in enumerate(similarity))
    pairs = clients * (clients - 1)
    mean = (similarity.sum() - np.trace(similarity)) / pairs
    squares = sum(((row - mean) ** 2).sum() for row in others)
    return float(mean), float(np.sqrt(squares / pairs))
