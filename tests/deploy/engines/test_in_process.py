"""Runs in one process: repeatable, resumable, and not at the mercy of one institution."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from flwr.common import NDArrays
from flwr.common import Scalar as FlowerScalar

from deploy.engines.in_process import run_in_process
from fedgt_client.client import FedGTClient
from fedgt_server.events import RoundEvent
from fedgt_server.result import read_result
from shared.errors import FedGTError
from tests.harness.small_runs import CLIENTS, saved_bytes, small

pytestmark = pytest.mark.usefixtures("own_cache")

Fit = tuple[NDArrays, int, dict[str, FlowerScalar]]


def journal(out: Path, event: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


def fail_when(
    monkeypatch: pytest.MonkeyPatch, institution: str, rounds: set[int], error: BaseException
) -> None:
    """Let an institution's training fail in the given rounds."""
    fit = FedGTClient.fit

    def failing(self: FedGTClient, parameters: NDArrays, config: dict[str, FlowerScalar]) -> Fit:
        if self.institution == institution and config["round"] in rounds and not config["finish"]:
            raise error
        return fit(self, parameters, config)

    monkeypatch.setattr(FedGTClient, "fit", failing)


def test_result(tmp_path: Path) -> None:
    seen: list[int] = []
    result = run_in_process(
        small(tmp_path / "a", rounds=3), CLIENTS, lambda event: seen.append(event.round)
    )
    assert seen == [1, 2, 3]
    assert set(result.per_client) == {f"institution-{index:02d}" for index in range(CLIENTS)}
    tests = [measured.test_accuracy or 0.0 for measured in result.per_client.values()]
    assert math.isclose(result.test_accuracy or 0.0, sum(tests) / CLIENTS)
    assert 1 <= result.best_round <= 3
    assert min(result.seconds, result.bytes_up, result.bytes_down) > 0
    assert read_result(tmp_path / "a") == result
    assert len(journal(tmp_path / "a", "end")) == 1


@pytest.mark.slow
def test_same_seed_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run_in_process(small(tmp_path / name, rounds=3, seed=seed), CLIENTS)
    first = saved_bytes(tmp_path / "a")
    assert len(first) > CLIENTS
    assert saved_bytes(tmp_path / "b") == first
    assert saved_bytes(tmp_path / "c") != first


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedgt", "local"])
def test_resume_between_rounds(tmp_path: Path, method: str) -> None:
    def interrupt(event: RoundEvent) -> None:
        if event.round == 3:
            raise KeyboardInterrupt

    run_in_process(small(tmp_path / "whole", rounds=6, method=method), CLIENTS)
    with pytest.raises(KeyboardInterrupt):
        run_in_process(small(tmp_path / "halves", rounds=6, method=method), CLIENTS, interrupt)
    result = run_in_process(
        small(tmp_path / "halves", rounds=6, method=method, resume=True), CLIENTS
    )
    assert saved_bytes(tmp_path / "halves") == saved_bytes(tmp_path / "whole")
    assert result.rounds == 6


@pytest.mark.slow
def test_resume_within_a_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask institutions again that have trained already: they train from the round before."""
    run_in_process(small(tmp_path / "whole", rounds=5), CLIENTS)
    with monkeypatch.context() as during:
        fail_when(during, "institution-02", {4}, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            run_in_process(small(tmp_path / "halves", rounds=5), CLIENTS)
    run_in_process(small(tmp_path / "halves", rounds=5, resume=True), CLIENTS)
    assert saved_bytes(tmp_path / "halves") == saved_bytes(tmp_path / "whole")


def test_the_quorum_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_when(monkeypatch, "institution-01", {2}, RuntimeError("out of memory"))
    run_in_process(small(tmp_path / "a", rounds=3, min_institutions=2), CLIENTS)
    rounds = journal(tmp_path / "a", "round")
    assert [event["missing"] for event in rounds] == [[], ["institution-01"], []]
    assert [len(event["institutions"]) for event in rounds] == [3, 2, 3]


def test_no_quorum_ends_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_when(monkeypatch, "institution-01", {2}, RuntimeError("out of memory"))
    with pytest.raises(FedGTError, match=r"2 of 3 institutions answered .*out of memory"):
        run_in_process(small(tmp_path / "a", rounds=3, give_up_after=0.01), CLIENTS)
    assert "out of memory" in journal(tmp_path / "a", "failed")[0]["reason"]


def test_nobody_can_take_part(tmp_path: Path) -> None:
    config = small(tmp_path / "a", dataset="cora", data_dir=str(tmp_path / "nowhere"))
    with pytest.raises(FedGTError, match=r"no institution can take part: .*nowhere"):
        run_in_process(config, CLIENTS)


def test_the_first_asked_cannot_take_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the starting point from another institution."""
    properties = FedGTClient.get_properties

    def failing(self: FedGTClient, config: dict[str, FlowerScalar]) -> dict[str, FlowerScalar]:
        if self.institution == "institution-00":
            raise RuntimeError("disk full")
        return properties(self, config)

    monkeypatch.setattr(FedGTClient, "get_properties", failing)
    monkeypatch.setattr("fedgt_server.wait._POLL", 0.01)
    result = run_in_process(small(tmp_path / "a", rounds=2, min_institutions=2), CLIENTS)
    assert set(result.per_client) == {"institution-01", "institution-02"}
