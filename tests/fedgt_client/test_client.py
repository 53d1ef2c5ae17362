"""FedGTClient: restore, train, save, answer."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedgt_client.client import FedGTClient
from fedgt_client.graph import Graph
from fedgt_client.named_arrays import NamedArrays
from fedgt_client.node import NodeConfig
from fedgt_client.state import StateStore
from shared.config import RunConfig, Scalar
from shared.errors import FedGTError
from shared.precision import Precision
from shared.version import VERSION
from shared.wire import Arrays, Update
from tests.fedgt_client.graphs import settings, two_groups, without_links
from tests.harness.policies import ANYTHING_GOES


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a machine of its own, with the institution's data."""
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDGT_STATE", str(tmp_path / "state"))
    two_groups().save(tmp_path / "data")
    return tmp_path


def opened(home: Path, *, run: str = "run", **changed: Scalar) -> FedGTClient:
    return FedGTClient.open(node(home), settings(**changed), run)


def node(home: Path, state_dir: str = "") -> NodeConfig:
    return NodeConfig(
        institution="alba",
        data_dir=str(home / "data"),
        state_dir=state_dir,
        policy=ANYTHING_GOES,
    )


def play(
    client: FedGTClient, number: int, sent: Arrays, *, best: int = 0, finish: bool = False
) -> tuple[Arrays, dict[str, Any]]:
    """Train for a round; return what was uploaded, and the metrics."""
    upload, _, metrics = client.fit(
        NamedArrays(sent), {"round": number, "best-round": best, "finish": finish}
    )
    return upload.as_dict(), dict(metrics)


def initial(client: FedGTClient) -> Arrays:
    return client.get_parameters({}).as_dict()


def grown(sent: Arrays, upload: Arrays) -> Arrays:
    return {name: array + upload[name] for name, array in sent.items()}


def assert_same(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_a_list_of_another_length(home: Path) -> None:
    client = opened(home)
    expected = len(client.get_parameters({}))
    with pytest.raises(FedGTError, match=f"fit got 1 arrays, expected the {expected} of"):
        client.fit([np.zeros(1)], {"round": 1})


def test_fit_takes_a_plain_list_as_any_numpy_client(home: Path) -> None:
    """Flower's own callers know no names."""
    plain, named = opened(home, run="plain"), opened(home, run="named")
    start = named.get_parameters({})
    upload, _, metrics = plain.fit(list(start), {"round": 1})
    expected, _ = play(named, 1, start.as_dict())
    assert_same(upload.as_dict(), expected)
    assert all(isinstance(value, int | float) for value in metrics.values())


def test_examples_are_counted_where_the_method_weighs_by_them(home: Path) -> None:
    client = opened(home, method="fedavg")
    _, examples, metrics = client.fit(client.get_parameters({}), {"round": 1})
    assert examples > 0
    assert metrics["num_examples"] == examples
    client = opened(home)
    _, examples, metrics = client.fit(client.get_parameters({}), {"round": 1})
    assert examples == 0
    assert "num_examples" not in metrics


def test_bad_run_name(home: Path) -> None:
    with pytest.raises(FedGTError, match="cannot name a folder"):
        opened(home, run="../other")


def test_profile(home: Path) -> None:
    client = opened(home)
    properties = client.get_properties({})
    profile = json.loads(str(properties["profile"]))
    assert properties["institution"] == "alba"
    assert profile["version"] == VERSION
    assert profile["features"] == [f"f{i}" for i in range(6)]
    assert profile["classes"] == ["even", "odd"]
    shapes = [list(array.shape) for array in client.get_parameters({})]
    assert list(profile["parameters"].values()) == shapes
    assert tuple(profile["parameters"]) == client.get_parameters({}).names
    # Nothing of what the institution holds.
    assert profile.keys() == {"version", "features", "classes", "parameters"}


def test_starting_point_is_the_start_also_later(home: Path) -> None:
    client = opened(home)
    start = initial(client)
    play(client, 1, start)
    assert_same(initial(client), start)


def test_a_repeated_round_gives_the_same_answer(home: Path) -> None:
    """A coordinator that resumed asks again."""
    client = opened(home)
    start = initial(client)
    first, _ = play(client, 1, start)
    sent = grown(start, first)
    second, metrics = play(client, 2, sent)
    again, repeated = play(client, 2, sent)
    assert_same(again, second)
    assert {k: v for k, v in repeated.items() if k != "seconds"} == {
        k: v for k, v in metrics.items() if k != "seconds"
    }
    once_more, _ = play(client, 1, start)
    assert_same(once_more, first)


def test_a_coordinator_that_goes_back_two_rounds(home: Path) -> None:
    """Its last checkpoint was truncated, when institutions had already finished the next round."""
    client = opened(home)
    sent, uploads = [initial(client)], []
    for number in range(1, 6):
        uploads.append(play(client, number, sent[-1])[0])
        sent.append(grown(sent[-1], uploads[-1]))
    again, _ = play(client, 4, sent[3])
    assert_same(again, uploads[3])


def test_another_process_goes_on_exactly(home: Path) -> None:
    """Processes that take turns, or one that was restarted."""
    straight = opened(home, run="straight")
    sent = initial(straight)
    taking_turns = [opened(home, run="turns"), opened(home, run="turns")]
    for number in range(1, 5):
        expected, _ = play(straight, number, sent)
        found, _ = play(taking_turns[number % 2], number, sent)
        assert_same(found, expected)
        sent = grown(sent, expected)


def test_what_another_process_saved_replaces_what_is_in_memory(home: Path) -> None:
    """The coordinator asked for round 1 again, with another model, and another process answered."""
    first, other = opened(home), opened(home)
    start = initial(first)
    play(first, 1, start)
    play(other, 1, {name: array + np.float32(0.01) for name, array in start.items()})
    found, _ = play(first, 2, start)
    expected, _ = play(opened(home), 2, start)
    assert_same(found, expected)


def test_updates_with_noise_have_no_feedback(home: Path) -> None:
    """A residual of what the noise protects would tie an upload to the release before it."""
    store = StateStore(home / "state", "default", "run", "alba")
    client = opened(home, ldp="all", ldp_noise_seed=5)
    play(client, 1, initial(client))
    assert not any(name.startswith("residual.") for name in store.load(1))


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_uploads_are_what_the_coordinator_will_read(home: Path, precision: Precision) -> None:
    client = opened(home, wire_precision=precision)
    assert client.precision == precision
    start = initial(client)
    for number in (1, 2):
        upload, _ = play(client, number, start)
        records = Update("alba", upload, {}).to_records(precision)
        assert_same(Update.from_records(records).arrays, upload)


def test_runs_are_separate(home: Path) -> None:
    client = opened(home, run="one")
    start = initial(client)
    first, _ = play(client, 1, start)
    play(client, 2, start)
    other, _ = play(opened(home, run="two"), 1, start)
    assert_same(other, first)
    assert sorted(path.name for path in (home / "state" / "default").iterdir()) == ["one", "two"]


def test_best_model_is_kept_on_disk(home: Path) -> None:
    client = opened(home)
    store = StateStore(home / "state", "default", "run", "alba")
    start = initial(client)
    play(client, 1, start, best=9)  # which never was here
    assert store.load_best() is None
    play(client, 2, start)
    assert store.load_best() is None
    play(client, 3, start, best=2)
    best = store.load_best()
    assert best is not None
    after_two = store.load(2)
    assert best.keys() == {
        name for name in after_two if not name.startswith(("adam.", "residual.", "measured."))
    }
    assert any(name.startswith("residual.") for name in after_two)
    for name, array in best.items():
        assert array.tobytes() == after_two[name].tobytes()
    # Heard two rounds late; and a best round that is long gone changes nothing.
    play(client, 4, start)
    play(client, 5, start, best=3)
    play(client, 6, start, best=1)
    assert [path.name for path in store.folder.glob("best-*")] == ["best-000003.safetensors"]


def test_the_last_message_keeps_the_best_and_trains_no_more(home: Path) -> None:
    client = opened(home)
    store = StateStore(home / "state", "default", "run", "alba")
    start = initial(client)
    play(client, 1, start)
    # Sent to a process that never trained.
    upload, metrics = play(opened(home), 2, {}, best=1, finish=True)
    assert upload == {}
    assert metrics == {}
    assert store.rounds() == [1]
    best = store.load_best()
    assert best is not None
    after = store.load(1)
    assert best["model.head.weight"].tobytes() == after["model.head.weight"].tobytes()


def test_state_is_where_the_institution_wants_it(home: Path) -> None:
    config = settings(state_dir=str(home / "configured"))
    # Not where the coordinator wants it.
    for folder, own in (("state", ""), ("own", str(home / "own"))):
        client = FedGTClient.open(node(home, own), config, "run")
        play(client, 1, initial(client))
        assert (home / folder / "default" / "run" / "alba" / "round-000001.safetensors").exists()


def test_warnings_travel_and_are_logged(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph: Graph = without_links(two_groups())
    graph.save(home / "data", force=True)
    client = opened(home)
    with caplog.at_level(logging.WARNING):
        _, metrics = play(client, 1, initial(client))
    (warning,) = str(metrics["warnings"]).split("\n")
    assert warning.startswith("no links")
    assert f"alba: {warning}" in caplog.text


def test_local_needs_and_gives_no_arrays(home: Path) -> None:
    client = opened(home, method="local")
    first, metrics = play(client, 1, {})
    assert first == {}
    assert 0.0 <= float(metrics["val_accuracy"]) <= 1.0
    losses = [play(client, number, {})[1]["train_loss"] for number in (2, 3)]
    restarted = opened(home, method="local")
    assert play(restarted, 3, {})[1]["train_loss"] == losses[1]


def test_threads_are_as_the_institution_says(home: Path) -> None:
    import torch

    for threads in (2, 0):  # 0: as torch has it
        own = node(home).model_copy(update={"threads": threads})
        FedGTClient.open(own, settings(threads=3), "run")  # not as the coordinator says
        assert torch.get_num_threads() == 2
    assert isinstance(settings(), RunConfig)


def test_who_joins_after_the_best_round_has_a_model_too(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = opened(home)
    sent = initial(client)
    for number in (5, 6, 7):
        play(client, number, sent, best=4)
    with caplog.at_level("INFO"):
        play(client, 8, {}, best=4, finish=True)
    (log,) = home.rglob("metrics.jsonl")
    measured = [json.loads(line)["val_accuracy"] for line in log.read_text().splitlines()]
    # Of equal rounds the last.
    best = max(range(3), key=lambda place: (measured[place], place)) + 5
    assert f"best model by its own validation of round {best}" in caplog.text


def test_what_the_federation_chooses_later_counts(home: Path) -> None:
    client = opened(home)
    sent = initial(client)
    for number in (5, 6, 7):
        play(client, number, sent, best=4)
    play(client, 8, {}, best=6, finish=True)
    (model,) = home.rglob("best-*.safetensors")
    assert model.name == "best-000006.safetensors"
