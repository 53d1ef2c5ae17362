"""Synthetic dataset ``consortium``: a seeded graph of accounts held by banks.

Accounts, features, labels and links are drawn from a seeded generator, so that every part of the
system can be tried in seconds, without files or network.

Properties
- Banks are of two kinds. Banks of a kind have similar class mixes, and part of the features that
  mark a class at one kind of bank mark another class at the other: each bank needs its own model.
- A bank has few labels and noisy features: training alone is clearly worse.
- Accounts also have links to accounts of other banks. These are in the whole graph, but in no
  institution's subgraph.

A two-layer GCN on the default six banks (four seeds, 20/40/40) reaches 72 % test accuracy trained
at each bank alone, and 80 % trained on all banks together, or on all banks of a kind.
"""

import numpy as np
from numpy.typing import NDArray

from fedgt_client.csr import undirected
from fedgt_client.data import RandomStream
from fedgt_client.graph import Graph
from shared.errors import FedGTError

DEFAULT_BANKS = 6
CLASSES = ("retail", "business", "merchant", "suspicious")
MEASURES = (
    "inflow",
    "outflow",
    "balance",
    "card-spend",
    "cash-share",
    "counterparties",
    "night-share",
    "round-amounts",
)
FEATURES = tuple(f"{measure}-{days}d" for measure in MEASURES for days in (7, 30, 90, 365))

# Share of each class at a bank of each kind: bank b is of kind b mod 2.
KINDS = np.array([[0.50, 0.32, 0.06, 0.12], [0.08, 0.12, 0.45, 0.35]])
MIX_CONCENTRATION = 60.0  # Dirichlet concentration: how closely a bank follows its kind's mix

ACCOUNTS = (150, 250)  # fewest and most accounts of a bank
SHARED_SIGNAL = 0.35  # class signal at every bank, per column, in units of the noise
KIND_SIGNAL = 0.25  # class signal at banks of one kind
FACTORS = 4  # latent factors that shift many columns of an account at once
FACTOR_NOISE = 0.7  # contribution of each factor per column, in units of the noise
LINKS = 2.5  # drawn per account within its bank
FOREIGN_LINKS = 0.75  # drawn per account over all banks; those within a bank are dropped
HOMOPHILY = 0.4  # share of links drawn within the class; others end in any class

Integers = NDArray[np.int64]


def generate(banks: int, seed: int, kinds: int = len(KINDS)) -> tuple[Graph, Integers]:
    """Generate the whole graph, not yet split, and the bank of every account, shape (n,).

    Bank b is of kind b mod ``kinds``, which is 1 or 2.
    """
    if banks < 1:
        raise FedGTError(f"banks is {banks}, expected 1 or more")
    if seed < 0:
        raise FedGTError(f"seed is {seed}, expected 0 or more")
    rng = np.random.default_rng([seed, RandomStream.GENERATOR])
    bank = np.repeat(np.arange(banks), rng.integers(*ACCOUNTS, size=banks, endpoint=True))
    labels = _labels(bank, kinds, rng)
    features = _features(labels, bank % kinds, rng)
    indptr, indices = undirected(*_links(labels, bank, rng), len(bank))
    unset = np.zeros(len(bank), np.bool_)
    graph = Graph(
        indptr=indptr,
        indices=indices,
        features=features,
        labels=labels,
        train=unset,
        val=unset,
        test=unset,
        feature_names=FEATURES,
        class_names=CLASSES,
    )
    return graph, bank


def _labels(bank: Integers, kinds: int, rng: np.random.Generator) -> Integers:
    """Draw a class for every account from its bank's class mix, shape (n,)."""
    of_banks = KINDS[np.arange(bank[-1] + 1) % kinds]
    # shape: (banks, classes)
    mixes = np.stack([rng.dirichlet(MIX_CONCENTRATION * kind) for kind in of_banks])
    thresholds = np.cumsum(mixes, axis=1)[bank, :-1]
    labels: Integers = (rng.random((len(bank), 1)) > thresholds).sum(axis=1).astype(np.int64)
    return labels


def _features(labels: Integers, kind: Integers, rng: np.random.Generator) -> NDArray[np.float32]:
    """Draw features around the centre of each class, columns standardised, shape (n, p)."""
    shape = (len(CLASSES), len(FEATURES))
    shared, own = rng.normal(0.0, SHARED_SIGNAL, shape), rng.normal(0.0, KIND_SIGNAL, shape)
    # The signal of a class at banks of one kind marks the next class at the next kind.
    centres = np.stack([shared + np.roll(own, index, axis=0) for index in range(len(KINDS))])
    # Large accounts have large values in many columns, whatever their class.
    loadings = rng.normal(0.0, FACTOR_NOISE, (FACTORS, len(FEATURES)))
    factors = rng.normal(0.0, 1.0, (len(labels), FACTORS)) @ loadings
    noise = rng.normal(0.0, 1.0, (len(labels), len(FEATURES)))
    features = centres[kind, labels] + factors + noise
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    return np.asarray(features, np.float32)


def _links(labels: Integers, bank: Integers, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Draw source and target of every link, within banks and across."""
    accounts, classes = len(bank), len(CLASSES)
    one_group = np.zeros(accounts, np.int64)
    drawn = []
    for count, group, within_bank in ((LINKS, bank, True), (FOREIGN_LINKS, one_group, False)):
        sources = rng.integers(0, accounts, round(count * accounts))
        within_class = rng.random(len(sources)) < HOMOPHILY
        same_class = _partner(group * classes + labels, sources, rng)
        targets = np.where(within_class, same_class, _partner(group, sources, rng))
        kept = (bank[sources] == bank[targets]) == within_bank
        drawn.append((sources[kept], targets[kept]))
    home, foreign = drawn
    return np.concatenate([home[0], foreign[0]]), np.concatenate([home[1], foreign[1]])


def _partner(group: Integers, sources: Integers, rng: np.random.Generator) -> Integers:
    """Draw a random account of its group for every source, ``group`` of shape (n,)."""
    order, sizes = np.argsort(group, kind="stable"), np.bincount(group)
    starts = np.cumsum(sizes) - sizes
    own = group[sources]
    partners: Integers = order[starts[own] + rng.integers(0, sizes[own])]
    return partners
