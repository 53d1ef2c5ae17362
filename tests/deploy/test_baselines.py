"""A golden run of each of the paper's other systems: coordinator and three institutions."""

import json
from pathlib import Path

import pytest

from deploy.run import run_in_process
from fedgt_client import app as client_app
from shared.config import METHOD_DEFAULTS
from tests.deploy.runs import CLIENTS, saved_bytes, small

pytestmark = pytest.mark.usefixtures("own_cache")

# Test accuracy after ROUNDS rounds, pinned loosely: libraries round differently.
ROUNDS = 6
GOLDEN = {
    "gcn": 0.405,
    "fedavg": 0.424,
    "fedper": 0.424,
    "gcfl": 0.424,
    "fedpub": 0.408,
    "gophormer": 0.306,
    "graphgps": 0.317,
}


@pytest.fixture(autouse=True)
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """No client of an earlier test in memory."""
    monkeypatch.setattr(client_app, "_warm", {})


def test_every_method_has_one() -> None:
    assert GOLDEN.keys() == METHOD_DEFAULTS.keys()


@pytest.mark.parametrize("method", GOLDEN)
def test_golden_run(method: str, tmp_path: Path) -> None:
    result = run_in_process(small(tmp_path / "a", rounds=ROUNDS, method=method), CLIENTS)
    assert result["test_accuracy"] == pytest.approx(GOLDEN[method], abs=0.05)
    lines = [json.loads(line) for line in (tmp_path / "a" / "journal.jsonl").open()]
    assert not any(line.get("warnings") for line in lines), "an update was left out"
    client_app._warm.clear()
    run_in_process(small(tmp_path / "b", rounds=ROUNDS, method=method), CLIENTS)
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
    client_app._warm.clear()
    run_in_process(small(tmp_path / "halves", rounds=ROUNDS, method=method, resume=True), CLIENTS)
    assert saved_bytes(tmp_path / "halves") == saved_bytes(tmp_path / "whole")
