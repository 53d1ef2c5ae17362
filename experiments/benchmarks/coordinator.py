"""One aggregation of FedGT at the coordinator, against the bare matrix product.

Run by hand: ``python -m experiments.benchmarks.coordinator INSTITUTIONS PARAMETERS``. Updates are
made up, and Flower takes no part. One thread: set OPENBLAS_NUM_THREADS=1.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil

from deploy.settings import resolve_settings
from fedgt_server.checkpoint import Checkpoint, CheckpointFacts, Checkpoints
from fedgt_server.methods.fedgt import FedGT
from shared.config import Scalar
from shared.wire import GLOBAL_NODES, LABEL_DISTRIBUTION, Arrays, Update

_COLUMNS = 4096  # of the bare product, whose time is proportional to them
_MIB = 2**20


@dataclass(frozen=True)
class Seconds:
    """How long something took."""

    cpu: float
    wall: float

    def __add__(self, other: "Seconds") -> "Seconds":
        return Seconds(self.cpu + other.cpu, self.wall + other.wall)

    def over(self, other: "Seconds") -> "Seconds":
        """Return how many times as long as ``other`` this took."""
        return Seconds(self.cpu / other.cpu, self.wall / other.wall)


@dataclass(frozen=True)
class Measurement:
    """A round in which every institution answers."""

    institutions: int  # M
    parameters: int  # P
    updates_mib: float  # of all institutions together
    bare_product: Seconds  # (M × M) (M × P) in float32
    receive: Seconds  # θ_i = θ̂_i + Δθ_i, for all
    aggregate: Seconds  # compare, average, report
    times_bare_product: Seconds  # receive and aggregate together
    peak_mib: float  # largest memory of the process, less what it had before
    times_updates: float  # the peak over all updates
    checkpoint: Seconds | None
    checkpoint_peak_mib: float | None


def measure(
    institutions: int,
    parameters: int,
    *,
    folder: Path,
    models_memory_mb: int = 512,
    compare_nodes: bool = True,
    rounds: int = 2,
    hold_updates: bool = True,
    checkpoint: bool = False,
) -> Measurement:
    """Measure the last of ``rounds``; in the first one tables are made.

    Without ``compare_nodes`` there are no global nodes and institutions are compared by their
    label distributions: what is left is the averaging of models.

    With ``hold_updates`` all updates are in memory throughout, and the peak includes them;
    otherwise each is made when its turn comes, as they come over the network.
    """
    bare = bare_product(institutions, parameters)
    before = psutil.Process().memory_info().rss
    settings: dict[str, Scalar] = {"models-memory-mb": models_memory_mb, "results-dir": str(folder)}
    if not compare_nodes:
        settings |= {"similarity": "label", "global-nodes": 0, "ldp": "off"}
    method = FedGT(resolve_settings(settings))
    method.begin({"weight": np.zeros(parameters, np.float32)})
    names = [f"institution-{index:06d}" for index in range(institutions)]

    def make(name: str) -> Update:
        return synthetic_update(name, parameters, compare_nodes=compare_nodes)

    held = {name: make(name) for name in names} if hold_updates else {}
    for _ in range(rounds):
        receive, kept = Seconds(0.0, 0.0), {}
        for name in names:
            update = held.get(name) or make(name)
            started = _now()
            kept[name] = method.receive(name, update)
            receive += _since(started)
        started = _now()
        method.aggregate(kept)
        aggregate = _since(started)
    peak = (_peak_memory() - before) / _MIB
    saving = None
    if checkpoint:
        facts = CheckpointFacts(config={}, best=None, profile=None)
        saving = _timed(lambda: Checkpoints(folder).save(Checkpoint(1, facts, method.state_dict())))
    updates_mib = 4 * institutions * parameters / _MIB
    return Measurement(
        institutions=institutions,
        parameters=parameters,
        updates_mib=updates_mib,
        bare_product=bare,
        receive=receive,
        aggregate=aggregate,
        times_bare_product=(receive + aggregate).over(bare),
        peak_mib=peak,
        times_updates=peak / updates_mib,
        checkpoint=saving,
        checkpoint_peak_mib=(_peak_memory() - before) / _MIB if checkpoint else None,
    )


def synthetic_update(name: str, parameters: int, *, compare_nodes: bool) -> Update:
    """Return a random update, with global nodes as the default settings have them."""
    rng = np.random.default_rng(list(name.encode()))
    arrays: Arrays = {
        "weight": rng.random(parameters, np.float32) - np.float32(0.5),
    }
    if compare_nodes:
        arrays[GLOBAL_NODES] = rng.standard_normal((3, 10, 128), np.float32)
    else:
        arrays[LABEL_DISTRIBUTION] = rng.random(10, np.float32)
    return Update(name, arrays, {})


def bare_product(institutions: int, parameters: int) -> Seconds:
    """Return how long (M × M) (M × P) takes, from the best of three with a part of the columns."""
    rng = np.random.default_rng(0)
    columns = min(_COLUMNS, parameters)
    weights = rng.random((institutions, institutions), np.float32)
    models = rng.random((institutions, columns), np.float32)
    times = [_timed(lambda: weights @ models) for _ in range(3)]
    share = columns / parameters
    return Seconds(min(t.cpu for t in times) / share, min(t.wall for t in times) / share)


def _timed(call: Callable[[], object]) -> Seconds:
    started = _now()
    call()
    return _since(started)


def _now() -> Seconds:
    return Seconds(time.process_time(), time.perf_counter())


def _since(started: Seconds) -> Seconds:
    now = _now()
    return Seconds(now.cpu - started.cpu, now.wall - started.wall)


def _peak_memory() -> int:
    """Return the most memory that the process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def main() -> None:
    """Print a measurement as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("institutions", type=int)
    parser.add_argument("parameters", type=int)
    parser.add_argument("--models-memory-mb", type=int, default=512)
    parser.add_argument("--no-global-nodes", action="store_true", help="compare by labels")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--stream", action="store_true", help="do not hold updates in memory")
    parser.add_argument("--checkpoint", action="store_true", help="write a checkpoint as well")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        found = measure(
            given.institutions,
            given.parameters,
            folder=Path(folder),
            models_memory_mb=given.models_memory_mb,
            compare_nodes=not given.no_global_nodes,
            rounds=given.rounds,
            hold_updates=not given.stream,
            checkpoint=given.checkpoint,
        )
    print(json.dumps(asdict(found), indent=2))


if __name__ == "__main__":
    main()
