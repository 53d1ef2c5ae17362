"""A method and a sampler are added with their own files and a registry line on each side."""

import json
from pathlib import Path

import pytest

from deploy.engines.in_process import run_in_process
from deploy.settings import resolve_settings
from fedgt_client.methods import METHODS as CLIENT_METHODS
from fedgt_client.preprocess.samplers import SAMPLERS
from fedgt_server.methods import METHODS as SERVER_METHODS
from fedgt_server.methods import MethodInfo
from fedgt_server.methods.fedavg import FedAvg
from shared.errors import FedGTError
from tests.deploy import toy_server
from tests.harness.small_runs import CLIENTS, checkpoint, saved_bytes, small

pytestmark = pytest.mark.usefixtures("own_cache")


def test_unknown_until_registered() -> None:
    with pytest.raises(FedGTError, match="method is 'toy', expected one of"):
        resolve_settings({"method": "toy"})
    with pytest.raises(FedGTError, match="sampler is 'next-node', expected one of"):
        resolve_settings({"sampler": "next-node"})


def test_a_method_with_two_halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CLIENT_METHODS, "toy", "tests.deploy.toy_client:Toy")
    monkeypatch.setitem(SERVER_METHODS, "toy", toy_server.INFO)
    config = small(tmp_path / "run", method="toy", rounds=8, lr=0.05)
    assert config.ldp == "off"
    result = run_in_process(config, CLIENTS)
    assert result.method == "toy"
    assert checkpoint(tmp_path / "run", 8).keys() == {
        "encoder.weight",
        "encoder.bias",
        "head.weight",
        "head.bias",
    }
    events = [json.loads(line) for line in (tmp_path / "run" / "journal.jsonl").open()]
    rounds = [event for event in events if event["event"] == "round"]
    assert [event["updates"] for event in rounds] == [CLIENTS] * 8
    first, last = (
        sum(facts["train_loss"] for facts in event["institutions"].values())
        for event in (rounds[0], rounds[-1])
    )
    assert last < 0.9 * first


def test_a_method_with_a_client_half_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CLIENT_METHODS, "toy", "tests.deploy.toy_client:Toy")
    info = MethodInfo("Toy", "a perceptron, averaged", FedAvg, defaults={"ldp": "off", "lr": 0.05})
    monkeypatch.setitem(SERVER_METHODS, "toy", info)
    config = small(tmp_path / "run", method="toy", rounds=3)
    assert config.lr == 0.05
    assert run_in_process(config, CLIENTS).rounds == 3


def test_a_sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An institution's own GCN, which may predict alone, samples nothing.
    plain = run_in_process(small(tmp_path / "ppr", rounds=2, own_model=False), CLIENTS)
    monkeypatch.setitem(SAMPLERS, "next-node", "tests.deploy.toy_client:POOL_BUILDER")
    changed = small(tmp_path / "toy", sampler="next-node", rounds=2, own_model=False)
    found = run_in_process(changed, CLIENTS)
    assert found.rounds == plain.rounds == 2
    before, after = (one / "checkpoints" for one in (tmp_path / "ppr", tmp_path / "toy"))
    assert saved_bytes(before) != saved_bytes(after)
