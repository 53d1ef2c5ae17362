"""``consortium``: a generated graph of accounts held by banks.

Nothing here is real: accounts, features and labels are drawn from a seeded generator, so that
every part of the system can be tried in seconds, without a file or a network.

What it is made to show
- Banks are of kinds (``KINDS``). Banks of a kind have alike mixes of classes, and a class looks
  partly different from kind to kind: averaging over all banks blindly is not the best one can do.
- A bank has few labels and noisy features, so that training alone is not the best either.
- Accounts also trade with accounts of other banks; those links are in the whole graph and lost to
  every institution.
"""

import numpy as np
from numpy.typing import NDArray

from shared.graph import Graph, undirected

DEFAULT_BANKS = 6
CLASSES = ("retail", "business", "merchant", "suspicious")
FEATURES = tuple(
    f"{measure}-{window}"
    for measure in (
        "inflow",
        "outflow",
        "balance",
        "card-spend",
        "cash-share",
        "counterparties",
        "night-share",
        "round-amounts",
    )
    for window in ("7d", "30d", "90d", "365d")
)
# Share of each class at a bank of each kind, in the order of CLASSES.
KINDS = np.array([[0.55, 0.15, 0.10, 0.20], [0.10, 0.50, 0.30, 0.10], [0.20, 0.10, 0.50, 0.20]])

ACCOUNTS = (150, 250)  # fewest and most accounts of a bank
SHARED_SIGNAL = 0.45  # length of what tells a class apart at every bank, per column
KIND_SIGNAL = 0.45  # and of what tells it apart at banks of one kind only
LINKS = 3.0  # links per account within its bank
FOREIGN_LINKS = 0.6  # links per account to other banks
HOMOPHILY = 0.6  # share of links sought within the class


def generate(banks: int, seed: int) -> tuple[Graph, NDArray[np.int64]]:
    """A consortium of ``banks`` banks; bank b is of kind b mod 3.

    Returns the whole graph, n nodes, and the bank of every account, shape (n,).
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(*ACCOUNTS, size=banks, endpoint=True)
    bank = np.repeat(np.arange(banks), sizes)  # shape: (n,)
    kind = bank % len(KINDS)
    # The mixes of one kind are alike, not equal.
    mixes = np.array([rng.dirichlet(60 * KINDS[index % len(KINDS)]) for index in range(banks)])
    labels = (rng.random(len(bank))[:, None] > np.cumsum(mixes, axis=1)[bank, :-1]).sum(axis=1)
    features = _features(labels, kind, rng)
    sources, targets = _links(labels, bank, rng)
    indptr, indices = undirected(sources, targets, len(bank))
    unset = np.zeros(len(bank), np.bool_)
    graph = Graph(
        indptr=indptr,
        indices=indices,
        features=features,
        labels=labels.astype(np.int64),
        train=unset,
        val=unset,
        test=unset,
        feature_names=FEATURES,
        class_names=CLASSES,
    )
    return graph, bank


def _features(
    labels: NDArray[np.int64], kind: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float32]:
    """Noise of unit variance around a class's centre, shape (n, p)."""
    shape = (len(KINDS), len(CLASSES), len(FEATURES))
    shared = rng.normal(0.0, SHARED_SIGNAL, shape[1:])
    centres = shared + rng.normal(0.0, KIND_SIGNAL, shape)
    noise = rng.normal(0.0, 1.0, (len(labels), len(FEATURES)))
    return (centres[kind, labels] + noise).astype(np.float32)


def _links(
    labels: NDArray[np.int64], bank: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Source and target of every link, within a bank or across."""
    n = len(bank)
    own, foreign = round(LINKS * n), round(FOREIGN_LINKS * n)
    sources = rng.integers(0, n, own + foreign)
    targets = np.empty_like(sources)
    within = np.arange(own + foreign) < own
    alike = rng.random(own + foreign) < HOMOPHILY
    for home in range(int(bank[-1]) + 1):
        for label in range(len(CLASSES)):
            chosen = (bank[sources] == home) & (labels[sources] == label)
            for inside, place in ((True, bank == home), (False, bank != home)):
                for same, match in ((True, labels == label), (False, labels >= 0)):
                    candidates = np.flatnonzero(place & match)
                    wanted = np.flatnonzero(chosen & (within == inside) & (alike == same))
                    if len(candidates):
                        targets[wanted] = rng.choice(candidates, len(wanted))
                    else:
                        targets[wanted] = sources[wanted]  # a self-loop, dropped later
    return sources, targets
