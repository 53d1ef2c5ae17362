"""What an institution answers when a coordinator asks again, starts anew or asks for too much."""

import hashlib
import json
import os
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedgt_client.client import FedGTClient
from fedgt_client.named_arrays import NamedArrays
from fedgt_client.node import NodeConfig
from fedgt_client.policy import Policy
from fedgt_client.privacy.ledger import Ledger, read_entries
from fedgt_client.privacy.outbound import SentReply, record_reply
from fedgt_client.privacy.releases import NOT_OF_THE_UPLOAD
from shared.config import RunConfig, Scalar
from shared.errors import FedGTError
from shared.wire import GLOBAL_NODES, Arrays
from tests.fedgt_client.graphs import settings, two_groups
from tests.harness.policies import ANYTHING_GOES


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDGT_STATE", str(tmp_path / "state"))
    two_groups().save(tmp_path / "data")
    return tmp_path


def opened(home: Path, *, run: str = "run", **changed: Scalar) -> FedGTClient:
    node = NodeConfig(institution="alba", data_dir=str(home / "data"), policy=ANYTHING_GOES)
    return FedGTClient.open(node, settings(**({"ldp": "global-nodes"} | changed)), run)


def play(client: FedGTClient, number: int, sent: Arrays | None = None) -> tuple[Arrays, Any]:
    arrays = client.get_parameters({}).as_dict() if sent is None else sent
    upload, _, metrics = client.fit(NamedArrays(arrays), {"round": number})
    return upload.as_dict(), metrics


def ledger(home: Path) -> Ledger:
    (path,) = (home / "state" / "ledger").glob("*.jsonl")
    return Ledger(path)


def test_repeating_a_round_400_times_averages_nothing_away(home: Path) -> None:
    """The attack: asked again and again, with the model changed a little each time."""
    client = opened(home)
    start = client.get_parameters({}).as_dict()
    first, metrics = play(client, 1, start)
    centres = client._method.state_dict()["global_nodes.centres"]
    once = np.abs(first[GLOBAL_NODES] - np.clip(centres, -1, 1)).mean()
    assert once > 0.3  # λ = 0.5
    total = np.zeros_like(centres)
    for number in range(400):
        changed = {name: array + np.float32(1e-6 * number) for name, array in start.items()}
        upload, again = play(client, 1, changed)
        total += upload[GLOBAL_NODES]
    error = np.abs(total / 400 - np.clip(centres, -1, 1)).mean()
    assert error == pytest.approx(once, rel=1e-3)
    assert ledger(home).spent().uploads == 1
    assert again == metrics


def test_another_process_sends_the_same(home: Path) -> None:
    first, _ = play(opened(home), 1)
    second, _ = play(opened(home, resume=True), 1)
    for name, array in first.items():
        assert second[name].tobytes() == array.tobytes()
    assert ledger(home).spent().uploads == 1


def test_a_crash_before_the_line_costs_nothing(home: Path) -> None:
    first, _ = play(opened(home), 1)
    (path,) = (home / "state" / "ledger").glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-10])  # the line is torn; its upload did not leave
    second, _ = play(opened(home), 1)
    assert second[GLOBAL_NODES].tobytes() == first[GLOBAL_NODES].tobytes()
    assert Ledger(path).spent().uploads == 1


def test_a_damaged_copy_counts_as_a_new_upload(home: Path) -> None:
    first, _ = play(opened(home), 1)
    (copy,) = (home / "state").rglob("sent-000001.bin")
    copy.write_bytes(copy.read_bytes()[:-10])
    second, _ = play(opened(home), 1)
    assert second[GLOBAL_NODES].tobytes() != first[GLOBAL_NODES].tobytes()
    assert ledger(home).spent().uploads == 2


def test_copies_of_the_last_rounds_are_kept(home: Path) -> None:
    client = opened(home)
    for number in range(1, 6):
        play(client, number)
    kept = sorted(path.name for path in (home / "state").rglob("sent-*"))
    assert kept == ["sent-000003.bin", "sent-000004.bin", "sent-000005.bin"]


def test_training_goes_on_after_a_repeated_round(home: Path) -> None:
    straight = opened(home, run="straight", ldp_noise_seed=1)
    repeated = opened(home, run="repeated", ldp_noise_seed=1)
    play(straight, 1)
    play(repeated, 1)
    play(repeated, 1)
    expected, found = play(straight, 2)[0], play(repeated, 2)[0]
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes()


def test_a_new_run_name_does_not_start_at_zero(home: Path) -> None:
    _, first = play(opened(home, run="one"), 1)
    _, second = play(opened(home, run="two", federation="other"), 1)
    assert first["epsilon_coordinate_total"] == 4.0
    assert second["epsilon_coordinate_total"] == pytest.approx(8.0, rel=0.01)


def test_a_run_cannot_move_the_ledger(home: Path) -> None:
    play(opened(home, run="one"), 1)
    play(opened(home, run="two", state_dir=str(home / "elsewhere")), 1)
    assert ledger(home).spent().uploads == 2
    assert not (home / "elsewhere" / "ledger").exists()


def test_resuming_with_more_noise_does_not_lower_what_was_spent(home: Path) -> None:
    play(opened(home), 1)
    _, before = play(opened(home), 2)
    _, after = play(opened(home, ldp_noise=500.0, resume=True), 3)
    assert after["epsilon_coordinate"] == pytest.approx(0.004)
    assert after["epsilon_coordinate_total"] >= before["epsilon_coordinate_total"]


def test_the_same_round_with_other_settings_is_another_release(home: Path) -> None:
    """It is not the same answer, so it is paid for."""
    first, _ = play(opened(home), 1)
    second, metrics = play(opened(home, ldp_noise=1.0), 1)
    assert second[GLOBAL_NODES].tobytes() != first[GLOBAL_NODES].tobytes()
    assert metrics["epsilon_coordinate_total"] == pytest.approx(6.0, rel=0.01)


def test_settings_of_the_coordinator_alone_draw_nothing_again(home: Path) -> None:
    first, _ = play(opened(home), 1)
    usual = RunConfig.build()
    for setting in sorted(NOT_OF_THE_UPLOAD - {"data-dir", "state-dir", "device"}):
        name = setting.replace("-", "_")
        changed: dict[str, Any] = {name: other(name, getattr(usual, name))}
        again, _ = play(opened(home, **changed), 1)
        assert again[GLOBAL_NODES].tobytes() == first[GLOBAL_NODES].tobytes(), setting
    assert ledger(home).spent().uploads == 1


def other(name: str, value: Scalar) -> Scalar:
    """Return another value of a setting."""
    words = {"setting": "overlap", "aggregation": "mean", "agreed_columns": "0" * 64}
    if isinstance(value, bool):
        return not value
    return words.get(name, "other") if isinstance(value, str) else value + 1


def test_without_noise_uploads_stand_in_the_ledger(home: Path) -> None:
    play(opened(home, ldp="off"), 1)
    play(opened(home, run="avg", method="fedavg", ldp="off"), 1)
    (path,) = (home / "state" / "ledger").glob("*.jsonl")
    units = [[part.unit for part in entry.release.parts] for entry in read_entries(path)]
    assert units == [["none"], ["none"]]
    assert ledger(home).spent().unprotected == 2


def test_by_default_the_weights_stand_in_the_ledger_as_unprotected(home: Path) -> None:
    play(opened(home), 1)
    (path,) = (home / "state" / "ledger").glob("*.jsonl")
    (found,) = read_entries(path)
    protected, rest = found.release.parts
    assert protected.arrays == (GLOBAL_NODES,)
    assert rest.unit == "none"
    assert "head.weight" in rest.arrays
    assert json.loads(path.read_text())["round"] == 1


def test_a_spent_budget_ends_uploads_but_not_training(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = opened(home, privacy_budget=9.0)
    losses = []
    for number in range(1, 5):
        upload, metrics = play(client, number)
        losses.append(metrics["train_loss"])
        assert bool(upload) == (number <= 2)
        assert metrics.get("upload_withheld") == (None if number <= 2 else 1.0)
    assert losses[-1] < losses[0]
    assert ledger(home).spent().uploads == 2
    line = "nothing is uploaded: there is a privacy budget of ε = 9, and the next upload would pass"
    assert line in str(metrics["warnings"])
    assert caplog.text.count(line) == 1
    assert "epsilon_coordinate" not in metrics


@pytest.mark.parametrize(
    "asked",
    [
        {"ldp": "off"},
        {"method": "fedavg", "ldp": "global-nodes"},  # it has no global nodes
        {"global_nodes": 0, "aggregation": "mean"},
        {"ldp_noise_seed": 3},
    ],
)
def test_a_run_without_private_noise_does_not_evade_a_budget(
    home: Path, asked: dict[str, Scalar]
) -> None:
    node = NodeConfig(institution="alba", data_dir=str(home / "data"))
    asked = {"ldp": "global-nodes", "privacy_budget": 9.0, **asked}
    upload, metrics = play(FedGTClient.open(node, settings(**asked), "run"), 1)
    assert not upload
    assert "has no noise that others cannot draw again" in str(metrics["warnings"])
    assert metrics["upload_withheld"] == 1.0


def test_neither_names_nor_tokens_nor_folders_evade_a_budget(home: Path) -> None:
    """Two uploads of ε = 4 fit, whoever asks for them."""
    node = NodeConfig(institution="alba", data_dir=str(home / "data"))
    sent = []
    exchanged: dict[str, Scalar] = {"label_privacy": "randomised-response", "label_epsilon": 8.0}
    attempts: list[tuple[str, str, dict[str, Scalar]]] = [
        ("run", "00000001", {}),
        ("run", "00000002", {}),  # the same round of the same name again
        ("other", "00000003", {"federation": "elsewhere"}),
        ("run", "00000002", {"state_dir": str(home / "elsewhere")}),
        ("run", "00000001", {"seed": 7, "wire_precision": "float32"}),
        ("run", "00000001", {"ldp_norm": "l1"}),  # another unit, and less noise for it
        ("labels", "00000004", {"ldp": "off", "method": "fedavg", **exchanged}),  # or labels alone
    ]
    for number, (run, token, changed) in enumerate(attempts):
        asked: dict[str, Scalar] = {"ldp": "global-nodes", "privacy_budget": 9.0, **changed}
        client = FedGTClient.open(node, settings(**asked), run, token)
        upload, _ = play(client, 1)
        sent.append(bool(upload))
        if number == 2:  # the institution loses the state of all runs, not its ledger
            for folder in ("default", "elsewhere"):
                shutil.rmtree(home / "state" / folder)
    assert sent == [True, True, False, False, False, False, False]


def test_a_link_more_does_not_evade_a_budget(home: Path) -> None:
    """Tables that are imported again are other data by their digest, of the same people."""
    asked: dict[str, Scalar] = {"ldp": "global-nodes", "privacy_budget": 9.0}
    node = NodeConfig(institution="alba", data_dir=str(home / "data"))
    sent = []
    for number in range(3):
        shutil.rmtree(home / "data")
        two_groups(20 + number).save(home / "data")
        client = FedGTClient.open(node, settings(**asked), f"run-{number}")
        sent.append(bool(play(client, 1)[0]))
    assert len(list((home / "state" / "ledger").glob("*.jsonl"))) == 2
    assert sent == [True, True, False]


@pytest.mark.parametrize("method", ["fedavg", "local"])
def test_noised_accuracies_of_a_round_long_ago_are_paid_for(home: Path, method: str) -> None:
    """The arrays of such a round are the same again, or there are none; the noise is not."""
    policy = Policy(ldp="off", share_metrics="noised")
    node = NodeConfig(institution="alba", data_dir=str(home / "data"), policy=policy)
    client = FedGTClient.open(node, settings(method=method, ldp="off"), "run")
    start = client.get_parameters({}).as_dict()
    for number in (1, 2, 3, 4, 5, 1, 2):
        play(client, number, start)
    assert ledger(home).spent().uploads == 7
    assert ledger(home).spent().epsilon("label") == pytest.approx(3.5, rel=0.01)


@pytest.mark.parametrize("budget", [0.0, 100.0])
def test_a_ledger_that_was_deleted(
    home: Path, budget: float, caplog: pytest.LogCaptureFixture
) -> None:
    node = NodeConfig(institution="alba", data_dir=str(home / "data"))
    upload, _ = play(opened(home), 1)
    content = hashlib.sha256(NamedArrays(upload).packed("float16")).hexdigest()
    left = SentReply(
        federation="default", run="run", institution="alba", round=1, content=content, items=()
    )
    record_reply(home / "state", left)
    asked: dict[str, Scalar] = {"ldp": "global-nodes", "wire_precision": "float16"}
    (path,) = (home / "state" / "ledger").glob("*.jsonl")
    path.unlink()
    line = "the ledger of alba lacks 1 uploads that left"
    with pytest.raises(FedGTError, match=line) if budget else nullcontext():
        FedGTClient.open(node, settings(privacy_budget=budget, **asked), "other")
    assert (line in caplog.text) == (not budget)


def test_an_upload_is_on_disk_before_it_leaves(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client, synced = opened(home), []

    def note(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())

    monkeypatch.setattr(os, "fsync", note)
    monkeypatch.setattr(os, "fdatasync", note)
    play(client, 1)
    names = [path.name for path in synced]
    copy = next(i for i, name in enumerate(names) if "sent-000001.bin" in name)
    line = next(i for i, name in enumerate(names) if name.endswith(".jsonl"))
    assert copy < line  # a crash between the two sends the same again
    assert "ledger" in names[line + 1 :]  # the folder, with the new file's name


def test_without_state_nothing_is_written(home: Path) -> None:
    data = str(home / "data")
    with pytest.raises(ValidationError, match="keep-state is false: what has left an institution"):
        NodeConfig(institution="alba", data_dir=data, keep_state=False)
    node = NodeConfig(institution="alba", data_dir=data, keep_state=False, rehearsal=True)
    client = FedGTClient.open(node, settings(ldp="global-nodes"), "run")
    for number in (1, 2):
        _, metrics = play(client, number)
    assert metrics["epsilon_coordinate_total"] == pytest.approx(8.0, rel=0.01)
    assert not (home / "state").exists()
