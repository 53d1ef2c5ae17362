"""Optimal transport between the global nodes of clients, section 4.2, equation 7."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

Floats = NDArray[np.float64]

# Share of the energy of noisy vectors that is taken to be signal at least.
_LEAST_SIGNAL = 0.1


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


def hungarian(cosine: Floats) -> Floats:
    """Return the bijection π that maximises Σ_k cosine[k, π(k)], a 0/1 plan, shape (n_g, n_g)."""
    plan = np.zeros_like(cosine)
    plan[linear_sum_assignment(cosine, maximize=True)] = 1.0
    return plan


def sinkhorn(
    cosine: Floats, *, entropy: float = 0.05, tolerance: float = 1e-4, iterations: int = 5000
) -> Floats:
    """Return the doubly stochastic T that maximises Σ T·cosine + entropy · H(T) (Cuturi 2013).

    In place of a bijection, each node of one client is spread over the other's; rows and columns
    sum to 1 up to ``tolerance``. Scaling happens on logarithms, which do not underflow at small
    ``entropy``.
    """
    log_plan = cosine / entropy
    for _ in range(iterations):
        rows = np.logaddexp.reduce(log_plan, axis=1, keepdims=True)
        log_plan = log_plan - rows
        if np.abs(rows).max() < tolerance:
            break
        log_plan = log_plan - np.logaddexp.reduce(log_plan, axis=0, keepdims=True)
    # Rows last: they are what averages are taken over.
    return np.asarray(np.exp(log_plan - np.logaddexp.reduce(log_plan, axis=1, keepdims=True)))


def identity(cosine: Floats) -> Floats:
    """Align node k with node k: no transport at all."""
    return np.eye(len(cosine))


PLANS = {"hungarian": hungarian, "sinkhorn": sinkhorn, "none": identity}


def transport(global_nodes: Floats, plan: str) -> tuple[Floats, Floats]:
    """Compute the plans between every two clients, and their similarity.

    S_ij = (1 / n_g) Σ_kl T_kl cos(μ_{i,k}, μ_{j,l}); with the best bijection as T, equation 7.
    S is symmetric and so is the transport, so half of it is computed.

    Parameters
    ----------
    global_nodes : shape (M, n_g, d)
    plan : a name of ``PLANS``

    Returns
    -------
    similarity : S, shape (M, M), 1 on the diagonal
    plans : T, shape (M, M, n_g, n_g); T[i, j] brings client j's nodes into client i's order
    """
    clients, count, _ = global_nodes.shape
    unit = unit_rows(global_nodes)
    similarity = np.eye(clients)
    plans = np.tile(np.eye(count), (clients, clients, 1, 1))
    for i in range(clients):
        for j in range(i + 1, clients):
            cosine = unit[i] @ unit[j].T  # shape: (n_g, n_g)
            plans[i, j] = PLANS[plan](cosine)
            plans[j, i] = plans[i, j].T
            similarity[i, j] = similarity[j, i] = (plans[i, j] * cosine).sum() / count
    return similarity, plans


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
    restored = np.clip(similarity * factor, -1.0, 1.0)
    np.fill_diagonal(restored, 1.0)
    return np.asarray(restored)


def spread(similarity: Floats) -> tuple[float, float]:
    """Return mean and standard deviation of the similarities between different clients."""
    others = similarity[~np.eye(len(similarity), dtype=bool)]
    return (float(others.mean()), float(others.std())) if len(others) else (0.0, 0.0)
