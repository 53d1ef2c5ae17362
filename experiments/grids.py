"""The paper's tables and figures as grids of jobs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product

from experiments.job import Job
from experiments.protocol import table_seeds
from experiments.variants import METHODS, WHOLE
from shared.config import Scalar
from shared.errors import FedGTError

_SMALL = ("cora", "citeseer")
_LARGER = ("pubmed", "amazon-computers", "amazon-photo")
_DATASETS = (*_SMALL, *_LARGER)
_PARTITION_SEEDS = (0, 1, 2)  # of what is measured without training
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
# The paper's own δ is 0.002, on the updates as they are.
LDP_PRINTED = (0.0005, 0.001, 0.002, 0.005, 0.01)


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
        for dataset, count, name in product(datasets, clients, variants)
        for seed in table_seeds(dataset)
    ]


def _measured(
    kind: str, datasets: Iterable[str], setting: str, clients: Iterable[int], seeds: Iterable[int]
) -> list[Job]:
    return [
        Job(dataset, setting, count, seed=seed, kind=kind)
        for dataset, count, seed in product(datasets, clients, seeds)
    ]


def _main(setting: str, counts: tuple[int, ...]) -> list[Job]:
    """Return all methods on all datasets, and what one graph with all links gives."""
    return [
        *_runs(_DATASETS, setting, counts, (*METHODS, "fedgt-paper")),
        *_whole(_DATASETS, "disjoint"),
    ]


def _whole(datasets: Iterable[str], setting: str) -> list[Job]:
    """Return runs on the whole graph: one client that has all nodes, and the same split."""
    return _runs(datasets, setting, (1,), WHOLE)


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
        *(
            job
            for noise in LDP_PRINTED
            for job in _runs(*cora, ("fedgt-paper",), {"ldp": "all", "ldp-noise": noise})
        ),
    ]


def _convergence() -> list[Job]:
    return [
        *_runs(_DATASETS, "disjoint", (10,), METHODS),
        *_runs(_DATASETS, "overlap", (30,), METHODS),
    ]


def _statistics(kind: str) -> list[Job]:
    overlap = _OVERLAP if kind == "statistics" else ()
    return [
        *_measured(kind, _DATASETS, "disjoint", _DISJOINT, _PARTITION_SEEDS),
        *_measured(kind, _DATASETS, "overlap", overlap, _PARTITION_SEEDS),
    ]


_AUTHORS_MASKS: dict[str, Scalar] = {"mask-penalty": 0.001}
# Each is FedGT without one of its parts.
_PARTS = (
    "fedgt-no-global",
    "fedgt-mean",
    "fedgt-no-ot",
    "fedgt-no-updates",
    "fedgt-no-own",
    "fedgt-no-common",
    "fedgt-transformer",
    "fedgt-transformer-mean",
)
_IN_CONFLICT = (
    "local",
    "gcn",
    "fedavg",
    "fedpub",
    "fedgt-mean",
    "fedgt-transformer",
    "fedgt-transformer-mean",
    "fedgt-no-updates",
    "fedgt",
)
_SIMILARITIES = ("fedgt-mean", "fedgt-update", "fedgt-label", "fedgt-no-ot", "fedgt")


def _experiments() -> list[tuple[str, str, list[Job]]]:
    ten = "disjoint", (10,)
    return [
        ("main-disjoint", "Node classification, disjoint clients", _main("disjoint", _DISJOINT)),
        ("main-overlap", "Node classification, overlapping clients", _main("overlap", _OVERLAP)),
        (
            "louvain",
            "Louvain partitions, 10 clients",
            _runs((*_SMALL, "pubmed"), "louvain", (10,), METHODS)
            + _whole((*_SMALL, "pubmed"), "louvain"),
        ),
        (
            "unbalanced",
            "Clients of unequal size, 10 clients",
            _runs(_DATASETS, "unbalanced", (10,), ("fedpub", "fedgt")),
        ),
        (
            "similarity",
            "How institutions are compared, overlapping clients",
            _runs(_SMALL, "overlap", _OVERLAP, _SIMILARITIES),
        ),
        (
            "ablation",
            "FedGT without its parts, 10 disjoint clients",
            _runs(_DATASETS, *ten, (*_PARTS, "fedgt")),
        ),
        (
            "conflict",
            "Groups that mean different things by the same label, 10 clients",
            _runs(("consortium", *_SMALL), "conflict", (10,), _IN_CONFLICT),
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
            + _measured("statistics", ("cora",), "overlap", (20,), table_seeds("cora")),
        ),
        ("convergence", "Accuracy over the rounds", _convergence()),
        (
            "tsne",
            "Nodes and global nodes of two institutions, Cora, 10 disjoint clients",
            [Job("cora", "disjoint", 10, "fedgt", table_seeds("cora")[0], kind="tsne")],
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
