"""The terms on which methods are compared: docs/protocol.md as data."""

import random
from collections.abc import Mapping

from shared.config import Scalar

# No seed was used in any run before the protocol was written, and no trial has a table's seed.
TABLE_SEEDS: Mapping[str, tuple[int, ...]] = {
    "cora": (31, 32, 33, 34, 35),
    "citeseer": (31, 32, 33, 34, 35),
}
_OTHER_TABLE_SEEDS = (31, 32, 33)

# Datasets of a family share what is chosen on the first of them.
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "cora": ("cora",),
    "citeseer": ("citeseer",),
    "pubmed": ("pubmed",),
    "amazon": ("amazon-photo", "amazon-computers"),
}
# Two where validation sets are small.
TRIAL_SEEDS: Mapping[str, tuple[int, ...]] = {
    "cora": (951, 952),
    "citeseer": (951, 952),
    "pubmed": (951,),
    "amazon": (951,),
}
TRIAL_SETTING, TRIAL_CLIENTS = "disjoint", 10

# As in the paper: rounds and local epochs, for every method alike.
_ROUNDS, _AMAZON_ROUNDS, _AMAZON_EPOCHS = 100, 200, 2

TRIALS = 6
# Of the draws of settings: another number would be another protocol.
_DRAW_SEED = 19

Settings = Mapping[str, Scalar]

# Adam as in the baselines' papers; what FedGT was developed with.
_CLASSIC: Settings = {
    "weight-decay": 5e-4,
    "decoupled-weight-decay": False,
    "lr-schedule": "constant",
    "adam-epsilon": 1e-8,
}
_DECOUPLED: Settings = {
    "weight-decay": 0.3,
    "decoupled-weight-decay": True,
    "lr-schedule": "cosine",
    "adam-epsilon": 1e-4,
}
# The second and third trial of every method: its authors' setting but for the recipe, which is the
# other, at the method's own learning rate and at that of the other recipe.
_FEDGT_RATE, _CLASSIC_RATE = 0.002, 0.001

# Common to all: a choice of each is drawn.
_RECIPES = (_CLASSIC, _DECOUPLED)
_COMMON: Mapping[str, tuple[Scalar, ...]] = {
    "lr": (0.001, 0.002, 0.005, 0.01),
    "batch-size": (0, 64),
    "dropout": (0.3, 0.5, 0.7),
}
_SAGE: Mapping[str, tuple[Scalar, ...]] = {"hidden": (64, 128, 256), "samples": (5, 10, 16)}
_TRANSFORMER: Mapping[str, tuple[Scalar, ...]] = {
    "hidden": (64, 128),
    "layers": (1, 2),
    "node-dropout": (0.0, 0.5),
}
# A method's own two or three.
_OWN: Mapping[str, Mapping[str, tuple[Scalar, ...]]] = {
    "local": _TRANSFORMER,
    "gcn": {"hidden": (64, 128, 256), "layers": (2, 3)},
    "fedavg": _SAGE,
    "fedper": _SAGE,
    "gcfl": _SAGE,
    "fedsage": _SAGE,
    "fedpub": {"mask-penalty": (0.001, 0.5), "tau": (3.0, 5.0, 10.0)},
    "gophormer": {"hidden": (64, 128), "samples": (5, 10, 16), "layers": (1, 2)},
    "graphgps": {"hidden": (64, 128), "layers": (2, 3), "positional-dimensions": (8, 16)},
    "fedgt": _TRANSFORMER,
}
TRIED_METHODS = tuple(_OWN)


def family_of(dataset: str) -> str | None:
    """Return the family that a dataset belongs to, None for those of no table."""
    return next((name for name, members in FAMILIES.items() if dataset in members), None)


def table_seeds(dataset: str) -> tuple[int, ...]:
    """Return the seeds of a dataset in every table."""
    return TABLE_SEEDS.get(dataset, _OTHER_TABLE_SEEDS)


def rounds_of(dataset: str) -> int:
    """Return the rounds of every method on a dataset."""
    return _AMAZON_ROUNDS if family_of(dataset) == "amazon" else _ROUNDS


def epochs_of(dataset: str) -> Settings:
    """Return the setting of local epochs, where it is not the default."""
    return {"local-epochs": _AMAZON_EPOCHS} if family_of(dataset) == "amazon" else {}


def trials(method: str) -> list[Settings]:
    """Return what each trial of a method sets: its authors' own first, then the other recipe.

    The others are drawn from the method's space without repetition.
    """
    of_fedgt = method in ("fedgt", "local")
    other, rate = (_CLASSIC, _CLASSIC_RATE) if of_fedgt else (_DECOUPLED, _FEDGT_RATE)
    tried: list[Settings] = [{}, other, {**other, "lr": rate}]
    draws = random.Random(f"{_DRAW_SEED}/{method}")
    space = {**_COMMON, **_OWN[method]}
    while len(tried) < TRIALS:
        values = {key: draws.choice(choices) for key, choices in space.items()}
        drawn = {**draws.choice(_RECIPES), **values}
        if drawn not in tried:
            tried.append(drawn)
    return tried
