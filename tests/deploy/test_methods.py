"""A golden run of each method: coordinator and three institutions."""

import json
from pathlib import Path

import pytest

from deploy.engines.in_process import run_in_process
from fedgt_client import handlers
from fedgt_client.methods import METHODS
from shared.config import Scalar
from tests.harness.small_runs import CLIENTS, saved_bytes, small

pytestmark = [pytest.mark.usefixtures("own_cache"), pytest.mark.slow]

# Test accuracy after ROUNDS rounds, pinned loosely: libraries round differently.
ROUNDS = 6
GOLDEN = {
    "fedgt": 0.535,
    "local": 0.497,
    "gcn": 0.538,
    "fedavg": 0.504,
    "fedper": 0.500,
    "gcfl": 0.504,
    "fedsage": 0.477,
    "fedpub": 0.500,
    "gophormer": 0.451,
    "graphgps": 0.485,
}

# What leaves an institution beside weights and metrics.
BESIDE = {
    "fedgt": {"global_nodes"},
    "fedsage": {"generated_features", "generated_gradients"},
    "fedpub": {"functional_embedding"},
}

# Most have learned little in six rounds at their own rate, and a golden run must show that they
# learn.
FASTER: dict[str, dict[str, Scalar]] = {
    name: {"lr": 0.02} for name in GOLDEN.keys() - {"gcn", "fedpub"}
}


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """No client of an earlier test in memory."""
    monkeypatch.setattr(handlers, "_warm", {})


def test_every_method_has_one() -> None:
    assert GOLDEN.keys() == METHODS.keys()


@pytest.mark.parametrize("method", GOLDEN)
def test_golden_run(method: str, tmp_path: Path) -> None:
    values: dict[str, Scalar] = {"rounds": ROUNDS, "method": method, **FASTER.get(method, {})}
    result = run_in_process(small(tmp_path / "a", **values), CLIENTS)
    assert result["test_accuracy"] == pytest.approx(GOLDEN[method], abs=0.05)
    assert result["uploads"].keys() - {"weights"} == BESIDE.get(method, set())
    lines = [json.loads(line) for line in (tmp_path / "a" / "journal.jsonl").open()]
    rounds = [line for line in lines if line["event"] == "round"]
    assert [len(line["institutions"]) for line in rounds] == [CLIENTS] * ROUNDS
    handlers._warm.clear()
    run_in_process(small(tmp_path / "b", **values), CLIENTS)
    assert saved_bytes(tmp_path / "b") == saved_bytes(tmp_path / "a")


@pytest.mark.parametrize("method", GOLDEN)
def test_resumed_run(method: str, tmp_path: Path) -> None:
    """Stopped after two rounds and continued, to the byte."""

    def interrupt(facts: dict[str, object]) -> None:
        if facts["round"] == 2:
            raise KeyboardInterrupt

    run_in_process(small(tmp_path / "whole", rounds=ROUNDS, method=method), CLIENTS)
    with pytest.raises(KeyboardInterrupt):
        run_in_process(small(tmp_path / "halves", rounds=ROUNDS, method=method), CLIENTS, interrupt)
    handlers._warm.clear()
    run_in_process(small(tmp_path / "halves", rounds=ROUNDS, method=method, resume=True), CLIENTS)
    assert saved_bytes(tmp_path / "halves") == saved_bytes(tmp_path / "whole")
