"""The paper's tables and figures as grids of jobs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from experiments.job import Job
from experiments.variants import METHODS
from shared.config import Scalar
from shared.errors import FedGTError

SEEDS = (0, 1, 2)
_SMALL = ("cora", "citeseer")
_LARGER = ("pubmed", "amazon-computers", "amazon-photo")
_FEWER_METHODS = ("local", "gcn", "fedavg", "fedpub", "fedgt")
_DISJOINT, _OVERLAP = (5, 10, 20), (10, 30, 50)

# The paper's figure shows L up to 5 and names no other value.
HYPER: Mapping[str, tuple[Scalar, ...]] = {
    "layers": (1, 2, 3, 4, 5),
    "global-nodes": (2, 5, 10, 15, 20),
    "samples": (4, 8, 16, 24, 32),
    "tau": (1.0, 2.0, 5.0, 10.0, 20.0),
}
# λ in the unit scale in which δ is 1: ε from 20 to 0.4 a coordinate and upload.
LDP_NOISE = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
LDP_SCOPES = ("global-nodes", "all")
LDP_CLIP = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Experiment:
    """A table or figure: its title and all that must be run for it."""

    name: str
    title: str
    jobs: tuple[Job, ...]


def _runs(
    datasets: Iterable[str],
    setting: str,
    clients: Iterable[int],
    variants: Iterable[str],
    extra: dict[str, Scalar] | None = None,
) -> list[Job]:
    return [
        Job.of(dataset, setting, count, name, seed, extra)
        for dataset, count, name, seed in product(datasets, clients, variants, SEEDS)
    ]


def _measured(
    kind: str, datasets: Iterable[str], setting: str, clients: Iterable[int]
) -> list[Job]:
    return [
        Job(dataset, setting, count, seed=seed, kind=kind)
        for dataset, count, seed in product(datasets, clients, SEEDS)
    ]


def _main(setting: str, counts: tuple[int, ...]) -> list[Job]:
    """Return all methods on the small datasets; on the larger ones fewer, at the middle count."""
    return [
        *_runs(_SMALL, setting, counts, METHODS),
        *_runs(_LARGER, setting, counts[1:2], _FEWER_METHODS),
    ]


def _hyper() -> list[Job]:
    return [
        job
        for key, values in HYPER.items()
        for value in values
        for job in _runs(("cora",), "disjoint", (10,), ("fedgt",), {key: value})
    ]


def _ldp() -> list[Job]:
    settings: list[dict[str, Scalar]] = [
        {"ldp": scope, "ldp-noise": noise} for scope, noise in product(LDP_SCOPES, LDP_NOISE)
    ]
    settings += [{"ldp-clip": clip} for clip in LDP_CLIP]
    cora = ("cora",), "disjoint", (10,)
    return [
        *_runs(*cora, ("fedgt-noldp",)),
        *(job for extra in settings for job in _runs(*cora, ("fedgt",), extra)),
    ]


def _convergence() -> list[Job]:
    return [
        *_runs(_SMALL, "disjoint", (10,), METHODS),
        *_runs(_SMALL, "overlap", (30,), METHODS),
        *_runs(_LARGER, "disjoint", (10,), _FEWER_METHODS),
        *_runs(_LARGER, "overlap", (30,), _FEWER_METHODS),
    ]


def _statistics(kind: str) -> list[Job]:
    datasets = (*_SMALL, *_LARGER)
    return [
        *_measured(kind, datasets, "disjoint", _DISJOINT),
        *(_measured(kind, datasets, "overlap", _OVERLAP) if kind == "statistics" else ()),
    ]


_AUTHORS_MASKS: dict[str, Scalar] = {"mask-penalty": 0.001}
_SIMILARITIES = ("fedgt-mean", "fedgt-update", "fedgt-label", "fedgt-no-ot", "fedgt")


def _experiments() -> list[tuple[str, str, list[Job]]]:
    ten = "disjoint", (10,)
    return [
        ("main-disjoint", "Node classification, disjoint clients", _main("disjoint", _DISJOINT)),
        ("main-overlap", "Node classification, overlapping clients", _main("overlap", _OVERLAP)),
        (
            "louvain",
            "Louvain partitions, 10 clients",
            _runs((*_SMALL, "pubmed"), "louvain", (10,), ("fedpub", "fedgt")),
        ),
        (
            "unbalanced",
            "Clients of unequal size, 10 clients",
            _runs((*_SMALL, *_LARGER), "unbalanced", (10,), ("fedpub", "fedgt")),
        ),
        (
            "similarity",
            "How institutions are compared, overlapping clients",
            _runs(_SMALL, "overlap", _OVERLAP, _SIMILARITIES),
        ),
        (
            "ablation",
            "FedGT without its parts, 10 disjoint clients",
            _runs((*_SMALL, *_LARGER), *ten, ("fedgt-no-global", "fedgt-mean", "fedgt"))
            + _runs(_SMALL, *ten, ("fedgt-paper",)),
        ),
        (
            "masks",
            "FED-PUB's penalty on masks, 10 disjoint and 30 overlapping clients",
            [
                *_runs(_SMALL, *ten, ("fedpub",)),
                *_runs(_SMALL, *ten, ("fedpub",), _AUTHORS_MASKS),
                *_runs(_SMALL, "overlap", (30,), ("fedpub",)),
                *_runs(_SMALL, "overlap", (30,), ("fedpub",), _AUTHORS_MASKS),
            ],
        ),
        (
            "sampling",
            "Where local attention draws its nodes from, 10 disjoint clients",
            _runs(_SMALL, *ten, ("fedgt-sampler-graphsage", "fedgt-sampler-attribute", "fedgt")),
        ),
        ("hyper", "Hyper-parameters of FedGT, Cora, 10 disjoint clients", _hyper()),
        ("ldp", "Privacy noise and accuracy, Cora, 10 disjoint clients", _ldp()),
        (
            "cost",
            "Communication and computation of a round, Cora, 5 disjoint clients",
            _runs(("cora",), "disjoint", (5,), METHODS),
        ),
        (
            "heatmap",
            "Similarity of institutions, Cora, 20 overlapping clients",
            _runs(("cora",), "overlap", (20,), ("fedgt", "fedgt-no-ot", "fedgt-update"))
            + _measured("statistics", ("cora",), "overlap", (20,)),
        ),
        ("convergence", "Accuracy over the rounds", _convergence()),
        (
            "tsne",
            "Nodes and global nodes of two institutions, Cora, 10 disjoint clients",
            [Job("cora", "disjoint", 10, "fedgt", kind="tsne")],
        ),
        ("statistics", "Missing links and heterogeneity", _statistics("statistics")),
        ("preprocessing", "Seconds of preparing a subgraph", _statistics("preprocessing")),
    ]


EXPERIMENTS: Mapping[str, Experiment] = {
    # Jobs that stand twice in a grid (a default among the values tried) are one.
    name: Experiment(name, title, tuple(dict.fromkeys(jobs)))
    for name, title, jobs in _experiments()
}


def experiment(name: str) -> Experiment:
    """Return the experiment called ``name``."""
    if name not in EXPERIMENTS:
        raise FedGTError(f"there is no experiment '{name}'; there are: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
