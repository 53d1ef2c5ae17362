"""Real messages to an institution in this process, and its replies."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Message, MessageType, RecordDict, UserConfig

from deploy.engines.in_process_grid import InProcessGrid
from fedgt_client.app import app, clients
from shared.config import Scalar
from shared.wire import GLOBAL_NODES, Instruction, Introduction, Question, Update
from tests.fedgt_client.graphs import settings, two_groups, without_links
from tests.harness.policies import ANYTHING_GOES


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what an institution writes in the test's folder."""
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDGT_STATE", str(tmp_path / "state"))
    clients.clear()


def grid(tmp_path: Path, **changed: Scalar) -> InProcessGrid:
    """Two institutions with data of their own, and one that has none."""
    two_groups().save(tmp_path / "alba")
    without_links(two_groups(seed=1)).save(tmp_path / "bree")
    return InProcessGrid(
        app,
        [
            {
                "institution": name,
                "data-dir": str(tmp_path / name),
                "worker": False,
                "policy": ANYTHING_GOES.to_json(),
            }
            for name in ("alba", "bree", "cork")
        ],
        settings(**changed).to_flower(),
    )


def send(grid: InProcessGrid, node: int, kind: str, content: RecordDict) -> Message:
    (reply,) = grid.send_and_receive([Message(content, node, kind)])
    return reply


def introduce(grid: InProcessGrid, node: int, *, want_initial: bool = False) -> Introduction:
    reply = send(grid, node, MessageType.QUERY, Question(want_initial).to_records())
    return Introduction.from_records(reply.content)


def printed(code: str) -> str:
    """Return what a new process prints."""
    command = [sys.executable, "-c", code]
    run = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


@pytest.mark.slow
def test_neither_torch_nor_its_geometry_is_imported_for_forwarding() -> None:
    """Flower loads the app again for each message."""
    code = (
        "import sys, fedgt_client.app\n"
        "print([name for name in ('torch', 'torch_geometric', 'scipy') if name in sys.modules])"
    )
    assert printed(code) == "[]"


@pytest.mark.slow
def test_neither_is_the_geometry_for_a_round() -> None:
    code = "import sys, fedgt_client.client\nprint('torch_geometric' in sys.modules)"
    assert printed(code) == "False"


def test_an_institution_that_cannot_answer_says_why(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    for kind, content in (
        (MessageType.QUERY, Question().to_records()),
        (MessageType.TRAIN, Instruction(1, {}).to_records()),
    ):
        reply = send(nodes, 3, kind, content)
        assert reply.has_error()
        # In words: where its data is, is nobody else's business.
        assert re.search(r"^\(a path\) holds no graph", reply.error.reason or "")
        assert "/" not in (reply.error.reason or "")


@pytest.mark.parametrize("setting", ["method", "sampler"])
def test_a_reason_that_quotes_the_coordinator_is_one_line(
    setting: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Or it would forge lines of the institution's log, and of what its record shows."""
    two_groups().save(tmp_path / "alba")
    node: UserConfig = {"institution": "alba", "data-dir": str(tmp_path / "alba"), "worker": False}
    asked = settings(ldp="global-nodes").to_flower() | {setting: "odd\nINFO: all is well\x1b[2K"}
    reply = send(InProcessGrid(app, [node], asked), 1, MessageType.QUERY, Question().to_records())
    reason = reply.error.reason or ""
    assert reason.startswith(f"{setting} is 'odd INFO: all is well [2K', expected one")
    assert reason in caplog.messages


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        ("nobody.knows.it", "a message holds 'nobody.knows.it', which is not exchanged"),
        ("head.bias", "a message's 'head.bias' has shape [1], expected [2]"),
    ],
)
def test_arrays_that_are_not_exchanged(array: str, reason: str, tmp_path: Path) -> None:
    bank = grid(tmp_path)
    model = introduce(bank, 1, want_initial=True).initial
    content = Instruction(1, model | {array: np.zeros(1, np.float32)}).to_records()
    reply = send(bank, 1, MessageType.TRAIN, content)
    assert reply.error.reason == reason


def test_damaged_data_is_not_described(tmp_path: Path) -> None:
    """How many nodes and links there are, is nobody else's business either."""
    nodes = grid(tmp_path)
    description = tmp_path / "alba" / "graph.json"
    facts = json.loads(description.read_text())
    facts["feature_names"] = facts["feature_names"][:-1]
    description.write_text(json.dumps(facts))
    reply = send(nodes, 1, MessageType.QUERY, Question().to_records())
    assert reply.error.reason == "this institution's data is damaged: its log says how"


def test_data_that_changed_is_not_described(tmp_path: Path) -> None:
    """By a digest, whoever knows all but a few labels could try these out."""
    nodes = grid(tmp_path)
    start = introduce(nodes, 1, want_initial=True).initial
    assert not send(nodes, 1, MessageType.TRAIN, Instruction(1, start).to_records()).has_error()
    graph = two_groups()
    replace(graph, labels=1 - graph.labels).save(tmp_path / "alba", force=True)
    reply = send(nodes, 1, MessageType.TRAIN, Instruction(2, start).to_records())
    assert reply.error.reason == (
        "this institution's data is not that of its import, or of the run's beginning: its log "
        "says how"
    )


def test_a_message_of_another_version(tmp_path: Path) -> None:
    reply = send(grid(tmp_path), 1, MessageType.TRAIN, RecordDict())
    assert reply.has_error()
    assert "another version of FedGT" in (reply.error.reason or "")


def test_introduction(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    first, second = introduce(nodes, 1, want_initial=True), introduce(nodes, 2)
    assert (first.institution, second.institution) == ("alba", "bree")
    assert first.profile == second.profile
    assert second.initial == {}
    shapes = {name: list(array.shape) for name, array in first.initial.items()}
    assert shapes == first.profile.parameters


def test_a_round(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    start = introduce(nodes, 1, want_initial=True).initial
    updates = []
    for node in (1, 2):
        instruction = Instruction(1, start)
        reply = send(nodes, node, MessageType.TRAIN, instruction.to_records())
        updates.append(Update.from_records(reply.content))
    assert [update.institution for update in updates] == ["alba", "bree"]
    for update in updates:
        assert set(update.arrays) == {*start, GLOBAL_NODES}
        assert update.metrics["seconds"] > 0
        assert 0.0 <= update.metrics["val_accuracy"] <= 1.0
        # Neither names nor warnings are left among the numbers.
        assert all(isinstance(value, float) for value in update.metrics.values())
    assert updates[0].warnings == []
    assert updates[1].warnings[0].startswith("no links")


def test_nothing_but_arrays_facts_and_metrics_is_in_a_reply(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    start = introduce(nodes, 1, want_initial=True).initial
    content = send(nodes, 1, MessageType.TRAIN, Instruction(1, start).to_records()).content
    assert set(content) == {"arrays", "facts", "metrics"}
    assert set(content.config_records["facts"]) == {"institution", "warnings"}
    assert set(content.metric_records["metrics"]) == {
        "train_loss",
        "val_accuracy",
        "test_accuracy",
        "val_balanced_accuracy",
        "test_balanced_accuracy",
        "val_majority_share",
        "test_majority_share",
        "skipped_steps",
        "seconds",
    }


def test_the_last_instruction(tmp_path: Path) -> None:
    nodes = grid(tmp_path)
    start = introduce(nodes, 1, want_initial=True).initial
    send(nodes, 1, MessageType.TRAIN, Instruction(1, start).to_records())
    last = Instruction(2, {}, best_round=1, finish=True)
    reply = send(nodes, 1, MessageType.TRAIN, last.to_records())
    update = Update.from_records(reply.content)
    assert (update.arrays, update.metrics, update.warnings) == ({}, {}, [])
    assert list((tmp_path / "state").rglob("alba/best-000001.safetensors"))


def test_clients_stay_in_memory_within_a_run(tmp_path: Path) -> None:
    nodes = grid(tmp_path, run_name="one")
    introduce(nodes, 1)
    introduce(nodes, 2)
    kept = list(clients)
    introduce(nodes, 1)
    assert list(clients) == kept
    introduce(grid_again(tmp_path), 1)
    (new,) = clients
    assert new not in kept


def grid_again(tmp_path: Path) -> InProcessGrid:
    node: UserConfig = {
        "institution": "alba",
        "data-dir": str(tmp_path / "alba"),
        "worker": False,
        "policy": ANYTHING_GOES.to_json(),
    }
    return InProcessGrid(app, [node], settings(run_name="two").to_flower())
