"""A golden run of each method: coordinator and three institutions."""

import json
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.engines.in_process import run_in_process
from fedgt_client.methods import METHODS
from fedgt_server.events import RoundEvent
from fedgt_server.methods import METHODS as SERVER_METHODS
from shared.config import Scalar
from tests.deploy.fingerprint import Fingerprint, fingerprint
from tests.harness.small_runs import CLIENTS, saved_bytes, small

pytestmark = pytest.mark.usefixtures("own_cache")


@dataclass(frozen=True)
class GoldenRun:
    """A method, how long it runs, and what it ends with."""

    method: str
    expected: Fingerprint
    rounds: int = 6

    def values(self) -> dict[str, Scalar]:
        """Return the settings of the run."""
        # At their own rate most methods learn little in six rounds.
        faster: dict[str, Scalar] = {} if self.method in ("gcn", "fedpub") else {"lr": 0.02}
        # Rounding to 8 bits can turn a last digit, which differs by processor, into a whole step.
        # Without what 'robust' adds: an institution that keeps its own model tells nothing of the
        # method.
        exact: dict[str, Scalar] = {"wire-precision": "float32", "robust": False}
        return {"rounds": self.rounds, "method": self.method, **faster, **exact}


# Relative. Without vector instructions torch gives the same to 2e-7.
TOLERANCE = 1e-4

GOLDEN = {
    "local": GoldenRun(
        "local",
        Fingerprint((1.147378, 1.126706, 1.070619), (9.978126, 9.921110, 9.955048), 0.0),
    ),
    "gcn": GoldenRun(
        "gcn",
        Fingerprint((1.257611, 1.256987, 1.236389), (5.482164, 5.469780, 5.379824), 0.0),
    ),
    "fedavg": GoldenRun(
        "fedavg",
        Fingerprint((1.291372, 1.360082, 1.280273), (4.062237, 3.969550, 4.059845), 4.019419),
    ),
    "fedper": GoldenRun(
        "fedper",
        Fingerprint((1.189678, 1.139974, 1.147949), (4.228315, 4.149811, 4.254729), 3.641416),
    ),
    # Until it splits a cluster, after 20 rounds, GCFL+ is FedAvg.
    "gcfl": GoldenRun(
        "gcfl",
        Fingerprint((0.877432, 1.146537, 0.777599), (6.096741, 5.693105, 6.096081), 8.338812),
        rounds=24,
    ),
    "fedavg, as long as gcfl": GoldenRun(
        "fedavg",
        Fingerprint((0.877671, 1.415290, 0.805110), (5.950985, 5.822283, 5.946034), 5.900808),
        rounds=24,
    ),
    "fedsage": GoldenRun(
        "fedsage",
        Fingerprint((1.374091, 1.333951, 1.367676), (3.912694, 3.863028, 3.922853), 3.882685),
    ),
    "fedpub": GoldenRun(
        "fedpub",
        Fingerprint((1.347658, 1.405098, 1.324757), (28.790993, 28.695236, 28.802867), 13.466709),
    ),
    "gophormer": GoldenRun(
        "gophormer",
        Fingerprint((1.123587, 1.673677, 1.012212), (12.933251, 12.938403, 12.910597), 12.912841),
    ),
    "graphgps": GoldenRun(
        "graphgps",
        Fingerprint((1.084053, 1.731660, 0.975715), (14.048834, 14.108508, 14.062048), 14.052068),
    ),
    "fedgt": GoldenRun(
        "fedgt",
        Fingerprint((1.161361, 2.012634, 1.136461), (9.810640, 9.809266, 9.810296), 28.991260),
    ),
}

# What leaves an institution besides weights and metrics, with the default settings.
UPLOADS = {
    "fedgt": {"global_nodes", "common_gradients"},
    "fedsage": {"generated_features", "generated_gradients"},
    "fedpub": {"functional_embedding"},
}


def rounds_of(out: Path) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (out / "journal.jsonl").open()]
    return [event for event in events if event["event"] == "round"]


def test_every_method_has_a_golden_run() -> None:
    assert {run.method for run in GOLDEN.values()} == METHODS.keys()


def test_golden_runs_tell_methods_apart() -> None:
    for one, other in combinations(GOLDEN, 2):
        distance = GOLDEN[one].expected.distance(GOLDEN[other].expected)
        assert distance > 100 * TOLERANCE, (one, other)


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN)
def test_golden_run(name: str, tmp_path: Path) -> None:
    golden = GOLDEN[name]
    result = run_in_process(small(tmp_path / "a", **golden.values()), CLIENTS)
    found = fingerprint(tmp_path / "a")
    assert found.distance(golden.expected) < TOLERANCE, found
    uploads = result.uploads.keys() - {"weights"}
    assert uploads == UPLOADS.get(golden.method, set())
    assert uploads <= set(SERVER_METHODS[golden.method].uploads)
    rounds = rounds_of(tmp_path / "a")
    assert [len(line["institutions"]) for line in rounds] == [CLIENTS] * golden.rounds
    run_in_process(small(tmp_path / "b", **golden.values()), CLIENTS)
    assert saved_bytes(tmp_path / "b") == saved_bytes(tmp_path / "a")


@pytest.mark.slow
def test_gcfl_splits_a_cluster(tmp_path: Path) -> None:
    run_in_process(small(tmp_path / "a", **GOLDEN["gcfl"].values()), CLIENTS)
    clusters = [len(line["clusters"]) for line in rounds_of(tmp_path / "a")]
    assert clusters == [1] * 20 + [2] * 4


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_send_less(method: str, tmp_path: Path) -> None:
    """Weights in another precision: fewer bytes both ways, and nearly the same model."""
    found = {}
    for precision in ("float32", "float16", "int8"):
        values = GOLDEN[method].values() | {"wire-precision": precision}
        result = run_in_process(small(tmp_path / precision, **values), CLIENTS)
        sizes = np.array([result.uploads.get("weights", 0), result.bytes_down])
        found[precision] = (sizes, fingerprint(tmp_path / precision))
    for precision, share, distance in (("float16", 0.5, 0.05), ("int8", 0.25, 0.1)):
        sizes, end = found[precision]
        full, expected = found["float32"]
        assert end.distance(expected) < distance
        if full[0]:  # 'local' and 'gcn' exchange nothing
            # Scales, headers and arrays that are no weights take the rest.
            assert (share * full <= sizes).all()
            assert (sizes < (share + 0.35) * full).all()


@pytest.mark.slow
@pytest.mark.parametrize(("method", "last"), [*((name, 2) for name in METHODS), ("gcfl", 22)])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_resumed_run(method: str, last: int, precision: str, tmp_path: Path) -> None:
    """Stopped after a round and continued, a run ends with the same bytes."""

    def interrupt(event: RoundEvent) -> None:
        if event.round == last:
            raise KeyboardInterrupt

    # GCFL+ is stopped before and after it splits a cluster.
    values = GOLDEN["gcfl"].values() if last > 2 else {"rounds": 6, "method": method}
    values |= {"wire-precision": precision}
    run_in_process(small(tmp_path / "whole", **values), CLIENTS)
    with pytest.raises(KeyboardInterrupt):
        run_in_process(small(tmp_path / "halves", **values), CLIENTS, interrupt)
    run_in_process(small(tmp_path / "halves", **values, resume=True), CLIENTS)
    assert saved_bytes(tmp_path / "halves") == saved_bytes(tmp_path / "whole")
