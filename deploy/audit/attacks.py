"""Attacks on uploads, as pure functions: what the coordinator receives in, a guess out."""

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from shared.config import RunConfig

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# An update of Adam near its bound says that a gradient is large, not how large.
_SATURATED = 1 - 1e-3
_RIDGE = 1e-2


def first_gradient(change: NDArray[np.float32], start: Floats, config: RunConfig) -> Floats:
    """Return the gradient of an institution's first step of Adam, from the weights' change.

    The first step divides a gradient g by its own magnitude: θ ← θ − η g / (|g| + ε'), with the
    weight decay beside it or within g. Its settings are the coordinator's own.
    """
    lr, decay = config.lr, config.weight_decay
    moved = -np.asarray(change, np.float64) / lr
    if config.decoupled_weight_decay:
        moved = moved - decay * start
    moved = np.clip(moved, -_SATURATED, _SATURATED)
    gradient = config.adam_epsilon * moved / (1.0 - np.abs(moved))
    return gradient if config.decoupled_weight_decay else gradient - decay * start


def guess_shares(clues: Floats, shares: Floats) -> Floats:
    """Guess each institution's class shares from clues, knowing those of all others.

    The coordinator colludes with everybody else: a ridge regression of shares on clues, fitted on
    all but one, guesses that one.

    Parameters
    ----------
    clues : of every class at every institution, shape (institutions, classes, clues)
    shares : the truth, shape (institutions, classes)

    Returns
    -------
    shape (institutions, classes)
    """
    spread = np.maximum(clues.std(axis=(0, 1)), 1e-12)
    inputs = np.concatenate(
        [(clues - clues.mean(axis=(0, 1))) / spread, np.ones_like(clues[..., :1])], 2
    )
    found = []
    for left_out in range(len(shares)):
        others = np.arange(len(shares)) != left_out
        x, y = inputs[others].reshape(-1, inputs.shape[2]), shares[others].reshape(-1)
        weights = np.linalg.solve(x.T @ x + _RIDGE * np.eye(x.shape[1]), x.T @ y)
        guess = np.maximum(inputs[left_out] @ weights, 0.0)
        found.append(guess / max(float(guess.sum()), 1e-12))
    return np.stack(found)


def guess_shares_blindly(shares: Floats) -> Floats:
    """Guess each institution's class shares by the mean of all others, shape as ``shares``."""
    return np.asarray((shares.sum(axis=0) - shares) / max(len(shares) - 1, 1))


def mean_error(guess: Floats, shares: Floats) -> float:
    """Return the mean absolute error of a share."""
    return float(np.abs(guess - shares).mean())


def auc(scores: Floats, is_member: Bools) -> float | None:
    """Return the probability that a member's score is above another's; 0.5 is a coin.

    None where there are no members, or members alone. Shapes (n,).
    """
    members, others = int(is_member.sum()), int((~is_member).sum())
    if not members or not others:
        return None
    ranks = rankdata(scores)
    return float((ranks[is_member].sum() - members * (members + 1) / 2) / (members * others))


def single_input(gradient: Floats, features: Floats) -> float:
    """Return how well the gradient of the input weights discloses a single node's features.

    For one node that gradient is xᵀ g: of rank one, with x as its direction (Geiping et al. 2020,
    section 3). The absolute cosine of that direction and the truth: 1 is disclosed.

    Parameters
    ----------
    gradient : shape (p, d)
    features : x, shape (p,)
    """
    left, _, _ = np.linalg.svd(gradient, full_matrices=False)
    return float(abs(left[:, 0] @ features) / max(float(np.linalg.norm(features)), 1e-12))
