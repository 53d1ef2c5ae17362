"""The runs behind the accuracies of docs/privacy.md: what each promise leaves to learn.

A record is the result of a run whose accuracies are those of the models that institutions kept,
measured exactly and without leaving them, whatever they share.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from deploy.engines.in_process import run_institutions, with_output_paths
from deploy.settings import resolve_settings
from fedgt_client.node import NodeConfig
from fedgt_client.policy import Policy
from fedgt_client.state import StateStore
from fedgt_server.result import Result
from fedgt_server.round_loop import Observer
from shared.config import RunConfig, Scalar
from shared.files import write_json

CLIENTS = 10
SEEDS = (920, 921, 922)
EPSILONS = (1.0, 4.0, 8.0)
POLICY = "-policy"  # in the name of runs of institutions with the default policy


@dataclass(frozen=True)
class PrivacyRun:
    """One run."""

    name: str
    dataset: str
    seed: int
    settings: dict[str, Scalar] = field(default_factory=dict)

    def record(self, folder: Path) -> Path:
        """Return where its record lies."""
        return folder / f"{self.name}-{self.seed}.json"


def all_runs() -> Iterator[PrivacyRun]:
    """Yield all runs, quick ones first."""
    for dataset in ("cora", "pubmed"):
        for epsilon in EPSILONS:
            label: dict[str, Scalar] = {"label-epsilon": epsilon}
            private = {"label-privacy": "dp-sgd", **label}
            for seed in SEEDS if dataset == "cora" else SEEDS[:1]:
                yield PrivacyRun(f"{dataset}-dp{epsilon:g}", dataset, seed, private)
            # About as many rounds as PubMed's accuracy needs to settle.
            rounds = {} if dataset == "cora" else {"rounds": 10}
            exchanged = {"label-privacy": "randomised-response", **label, **rounds}
            yield PrivacyRun(f"{dataset}-rr{epsilon:g}", dataset, SEEDS[0], exchanged)
    yield PrivacyRun("pubmed-no-noise", "pubmed", SEEDS[0], {"ldp": "off", "rounds": 10})
    for seed in SEEDS:
        yield PrivacyRun(f"cora-default{POLICY}", "cora", seed)
        yield PrivacyRun("cora-no-noise", "cora", seed, {"ldp": "off"})


def play(run: PrivacyRun, observe: Observer = lambda _: None, clients: int = CLIENTS) -> Result:
    """Play a run in this process; return its result with the accuracies of the models kept."""
    policy = Policy() if POLICY in run.name else None
    nodes = [
        NodeConfig(partition_id=index, num_partitions=clients, policy=policy)
        for index in range(clients)
    ]
    values: dict[str, Scalar] = {"dataset": run.dataset, "seed": run.seed, **run.settings}
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "run"
        config = resolve_settings(with_output_paths(values, out, clients))
        result = run_institutions(config, nodes, observe)
        kept = {name: _kept(out / "institutions", config, name) for name in result.per_client}
    places = {"data-dir": "", "results-dir": "", "state-dir": "", "run-name": run.name}
    return result.model_copy(
        update={
            "test_accuracy": fmean(found["test_accuracy"] for found in kept.values()),
            "val_accuracy": fmean(found["val_accuracy"] for found in kept.values()),
            "config": {**result.config, **places},
        }
    )


def _kept(root: Path, config: RunConfig, institution: str) -> dict[str, float]:
    """Return what an institution measured of the model that it kept."""
    store = StateStore(root, config.federation, config.run_name, institution)
    best = store.best()
    assert best is not None
    return store.metrics_of(best.round_number)


def write_record(folder: Path, run: PrivacyRun, result: Result) -> None:
    """Write the record of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(run.record(folder), result.model_dump(mode="json"))
