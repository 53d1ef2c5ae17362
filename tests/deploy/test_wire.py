"""What leaves institutions on the wire, method by method: all declared, all in their own record."""

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import Message, MetricRecord, UserConfig

from deploy.cli.report import write_report
from deploy.engines.in_process_grid import InProcessGrid
from deploy.settings import resolve_settings
from fedgt_client.app import app, clients
from fedgt_client.methods import METHODS, method_class
from fedgt_client.node import NodeConfig
from fedgt_client.policy import Policy, sent_arrays
from fedgt_client.privacy.outbound import SentReply, read_outbound
from fedgt_client.state import StateStore
from fedgt_server.result import read_result
from fedgt_server.round_loop import RoundLoop
from fedgt_server.strategy import FedGTStrategy
from shared.config import RunConfig, Scalar
from shared.wire import WEIGHTS, Introduction, Update, read_arrays
from tests.fedgt_client.graphs import two_groups
from tests.harness.kits import fedgt
from tests.harness.policies import ANYTHING

NAMES = ("alba", "bree")
# What every method reports, and every reply says.
_OF_ALL = {
    *(f"{s}_{m}" for s in ("val", "test") for m in ("accuracy", "majority_share")),
    *(f"{s}_balanced_accuracy" for s in ("val", "test")),
    *("train_loss", "skipped_steps", "seconds", "metrics_step", "upload_withheld"),
}
_EPSILONS = {
    *("epsilon_coordinate", "epsilon_coordinate_total", "epsilon_coordinate_basic"),
    *("epsilon_total", "epsilon_upload_total", "epsilon_label_total", "epsilon_private"),
}
_FACTS = {"institution", "warnings", "profile"}
_PROFILE = {"version", "features", "classes", "parameters"}
_SMALL: dict[str, Scalar] = {
    "hidden": 8,
    "heads": 2,
    "samples": 3,
    "global-nodes": 3,
    "positional-dimensions": 2,
    "rounds": 3,
    "federation": "banks",
    "run-name": "first",
}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    clients.clear()


class Wire(InProcessGrid):
    """A grid that keeps what it carries from institutions."""

    def __init__(self, nodes: list[UserConfig], config: RunConfig) -> None:
        super().__init__(app, nodes, config.to_flower())
        self.carried: list[Message] = []

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        pulled = list(super().pull_messages(message_ids))
        self.carried += pulled
        return pulled


def play(place: Path, policy: dict[str, Any], **values: Scalar) -> tuple[Wire, RunConfig]:
    config = resolve_settings(
        _SMALL | {"results-dir": str(place), **{k.replace("_", "-"): v for k, v in values.items()}}
    )
    nodes = []
    for seed, name in enumerate(NAMES):
        if not (place / name / "data").exists():
            two_groups(60, seed=seed).save(place / name / "data")
        node = NodeConfig(
            institution=name,
            data_dir=str(place / name / "data"),
            state_dir=str(place / name / "state"),
            worker=False,
            policy=Policy.model_validate(policy.get(name, policy), by_alias=True),
        )
        nodes.append(node.to_flower())
    wire = Wire(nodes, config)
    RoundLoop(wire, FedGTStrategy(config), place / config.run_name).run()
    return wire, config


def undeclared(reply: Message, config: RunConfig, parameters: set[str]) -> set[str]:
    """Return what a reply holds besides what its method declares."""
    method = method_class(config.method)
    declared = set(sent_arrays(method.uploads, config))
    arrays = declared | (parameters if WEIGHTS in declared else set())
    content = reply.content
    found = set(content.array_records) - {"arrays"}
    found |= set(content.metric_records) - {"metrics"} | set(content.config_records) - {"facts"}
    if profile := content.config_records["facts"].get("profile"):
        found |= json.loads(str(profile)).keys() - _PROFILE
        arrays = parameters  # a starting point, which has no data in it
    found |= read_arrays(content)[0].keys() - arrays
    for metrics in content.metric_records.values():
        found |= set(metrics) - _OF_ALL - _EPSILONS - set(method.metrics)
    for facts in content.config_records.values():
        found |= set(facts) - _FACTS
    return found


def recorded(place: Path) -> list[SentReply]:
    return [reply for name in NAMES for reply in read_outbound(place / name / "state")]


def named(reply: Message) -> set[str]:
    """Return everything in a reply, by name."""
    content = reply.content
    found = set(read_arrays(content)[0])
    for metrics in content.metric_records.values():
        found |= set(metrics)
    for facts in content.config_records.values():
        found |= set(facts)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_nothing_undeclared_leaves(method: str, tmp_path: Path) -> None:
    wire, config = play(tmp_path, ANYTHING, method=method)
    replies = [reply for reply in wire.carried if not reply.has_error()]
    assert len(replies) == len(NAMES) * (1 + 3 + 1)  # introductions, rounds, the end
    first = Introduction.from_records(replies[0].content)
    for reply in replies:
        assert undeclared(reply, config, set(first.profile.parameters)) == set()
    # And all of it stands in the institutions' own records.
    in_records = [{item.name for item in reply.items} for reply in recorded(tmp_path)]
    assert sorted(map(sorted, in_records)) == sorted(sorted(named(reply)) for reply in replies)


def test_the_comparison_finds_what_is_not_declared(tmp_path: Path) -> None:
    wire, config = play(tmp_path, ANYTHING, rounds=1)
    first, *_, last = [reply for reply in wire.carried if reply.has_content()]
    (update,) = [one for one in wire.carried[len(NAMES) :] if read_arrays(one.content)[0]][:1]
    parameters = set(Introduction.from_records(first.content).profile.parameters)
    assert not any(undeclared(reply, config, parameters) for reply in (first, update, last))
    update.content.metric_records["metrics"]["train_nodes"] = 7.0
    update.content.metric_records["metrics"]["epsilon_counts"] = 7.0
    update.content.config_records["facts"]["rows"] = "7"
    update.content["more"] = MetricRecord({"x": 1.0})
    found = undeclared(update, config, parameters)
    assert found == {"train_nodes", "epsilon_counts", "rows", "more", "x"}
    told = Update.from_records(wire.carried[len(NAMES) + 1].content)
    more = replace(told, arrays={**told.arrays, "labels": np.ones(3, np.float32)})
    with_array = Message(more.to_records(), reply_to=update)
    assert undeclared(with_array, config, parameters) == {"labels"}
    facts = first.content.config_records["facts"]
    facts["profile"] = json.dumps(json.loads(str(facts["profile"])) | {"nodes": 3})
    assert undeclared(first, config, parameters) == {"nodes"}


def test_something_undeclared_does_not_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(method_class("fedgt"), "uploads", (WEIGHTS,))
    weights_alone: dict[str, Scalar] = {"global_nodes": 0, "common_model": "off"}
    wire, _ = play(tmp_path, ANYTHING, similarity="update", **weights_alone)
    assert not [reply for reply in wire.carried if reply.has_error()]
    values: dict[str, Scalar] = {"run_name": "second", "give_up_after": 0.5}
    with pytest.raises(Exception, match="'global_nodes', which it does not declare"):
        play(tmp_path / "second", ANYTHING, **values)


def test_the_record_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    play(tmp_path, {})  # an institution that has said nothing
    kit = tmp_path / "alba"
    (kit / "kit.toml").write_text(
        'federation = "banks"\ninstitution = "alba"\ncoordinator = "localhost:9092"\n'
    )
    (kit / "node.toml").write_text('institution = "alba"\ndata-dir = "data"\nstate-dir = "state"\n')
    code, output, _ = fedgt(capsys, monkeypatch, "outbound", str(kit), "--json")
    assert code == 0
    lines = json.loads(output)
    nodes = [line for line in lines if line["name"] == "global_nodes"]
    assert [line["round"] for line in nodes] == [1, 2, 3]
    for line in nodes:
        assert line["shape"] == [2, 3, 8]
        assert line["bytes"] == 2 * 3 * 8 * 2  # half precision
        assert line["norm"] > 0
        assert line["noise"] == "laplace 0.25 of the sensitivity of a value"
    weights = [line for line in lines if line["name"] == "head.weight"]
    assert {line["noise"] for line in weights} == {"none"}
    measured = {line["name"] for line in lines if line["kind"] == "metric"}
    assert "val_accuracy" in measured
    assert not [name for name in measured if name.endswith("loss")]
    # The same as text, a line for each, and a choice of them.
    code, output, _ = fedgt(capsys, monkeypatch, "outbound", str(kit), "--round", "2")
    assert code == 0
    assert all(" first  round 2 " in line for line in output.splitlines())
    assert any("  val_accuracy  –  8 bytes  " in line for line in output.splitlines())
    (found,) = [line for line in output.splitlines() if "  global_nodes  " in line]
    assert "  2×3×8  96 bytes  norm " in found
    assert found.endswith("  noise laplace 0.25 of the sensitivity of a value")
    code, output, _ = fedgt(capsys, monkeypatch, "outbound", str(kit), "--run", "other")
    assert (code, output) == (0, "")


def test_a_run_whose_accuracies_nobody_shares(tmp_path: Path) -> None:
    """The coordinator goes on without; each institution keeps the round that is best there."""
    wire, _ = play(tmp_path, {"share-metrics": "none"})
    sent = [set(found) for one in wire.carried for found in one.content.metric_records.values()]
    assert all(name.startswith("epsilon") for names in sent for name in names)
    result = read_result(tmp_path / "first")
    assert result is not None
    assert (result.val_accuracy, result.test_accuracy) == (None, None)
    assert result.warnings == [
        "2 of 2 institutions share no validation accuracy: the means are without them"
    ]
    page = write_report(tmp_path / "first").read_text()
    assert "share no validation accuracy" in page
    for name in NAMES:
        state = StateStore(tmp_path / name / "state", "banks", "first", name)
        measured = [state.metrics_of(number)["val_accuracy"] for number in (1, 2, 3)]
        best = state.best()
        assert best is not None
        assert best.round_number == len(measured) - measured[::-1].index(max(measured))


@pytest.mark.slow
@pytest.mark.parametrize("others", [0.0, 9.0])
def test_a_budget_ends_while_the_run_goes_on(others: float, tmp_path: Path) -> None:
    """Two uploads of ε = 4 a value fit; all institutions may reach the end in the same round."""
    policies = {"alba": {"privacy-budget": 9.0}, "bree": {"privacy-budget": others}}
    wire, _ = play(tmp_path, policies, rounds=5)
    sent: dict[str, list[bool]] = {name: [] for name in NAMES}
    for reply in wire.carried[len(NAMES) :]:
        update = Update.from_records(reply.content)
        sent[update.institution].append(bool(update.arrays))
        withheld = update.metrics.get("upload_withheld")
        if len(sent[update.institution]) <= 5:
            assert withheld == (None if update.arrays else 1.0)
    ended = [True, True, False, False, False]
    assert sent["alba"][:5] == ended
    assert sent["bree"][:5] == (ended if others else [True] * 5)
    result = read_result(tmp_path / "first")
    assert result is not None
    assert result.rounds == 5
    told = [line for line in result.warnings if "its privacy budget is spent" in line]
    assert [line.split(" has uploaded nothing since round 3:")[0] for line in told] == (
        ["alba", "bree"] if others else ["alba"]
    )
    for name in NAMES:  # training goes on, with what the others sent
        state = StateStore(tmp_path / name / "state", "banks", "first", name)
        assert all("train_loss" in state.metrics_of(number) for number in range(1, 6))


def test_a_ledger_holds_all_that_left(tmp_path: Path) -> None:
    """With a budget, an institution goes on only where its ledger lacks nothing."""
    play(tmp_path, {"privacy-budget": 1000.0})
    clients.clear()
    play(tmp_path, {"privacy-budget": 1000.0}, run_name="second")
    for ledger in tmp_path.glob("*/state/ledger/*.jsonl"):
        ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[1:]))
    clients.clear()
    with pytest.raises(Exception, match="lacks 1 uploads that left"):
        play(tmp_path, {"privacy-budget": 1000.0}, run_name="third", give_up_after=0.5)


def test_what_was_refused_stands_in_the_record(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="refuses the run"):
        play(tmp_path, {}, ldp="off")
    for reply in recorded(tmp_path):
        (item,) = reply.items
        assert item.kind == "error"
        assert "ldp = off, allowed: global-nodes, all ([policy] ldp)" in str(item.value)


def test_what_cannot_be_recorded_does_not_leave(tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name / "state" / "outbound.jsonl").mkdir(parents=True)
    with pytest.raises(Exception, match="this institution's machine"):
        play(tmp_path, {})


def test_a_line_that_was_cut_off_is_skipped(tmp_path: Path) -> None:
    play(tmp_path, {})
    source = tmp_path / "alba" / "state" / "outbound.jsonl"
    whole = len(list(read_outbound(source.parent)))
    assert source.stat().st_mode & 0o777 == 0o600
    source.write_bytes(source.read_bytes()[:-20])
    assert len(list(read_outbound(source.parent))) == whole - 1
