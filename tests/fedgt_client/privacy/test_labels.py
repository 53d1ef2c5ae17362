"""Differential privacy of training labels."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedgt_client.client import FedGTClient
from fedgt_client.graph import UNLABELLED
from fedgt_client.named_arrays import NamedArrays
from fedgt_client.node import NodeConfig
from fedgt_client.privacy.labels import private_labels, randomised_response
from fedgt_client.privacy.ledger import Ledger
from fedgt_client.privacy.random_bits import RandomBits
from shared.config import Scalar
from shared.errors import FedGTError
from tests.fedgt_client.graphs import settings, two_groups


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"method": "fedpub"}, "method is 'fedpub': choose fedgt or fedavg"),
        ({"class_weights": "balanced"}, "class-weights is 'balanced': choose none"),
        ({"batch_size": 8}, "batch-size is 8: choose 0"),
        ({"similarity": "label"}, "similarity is 'label': choose hungarian"),
    ],
)
def test_what_would_use_labels_besides_is_refused(changed: dict[str, Scalar], found: str) -> None:
    with pytest.raises(FedGTError, match=found):
        settings(label_privacy="dp-sgd", **changed)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_class_is_likelier_than_epsilon_allows(epsilon: float) -> None:
    shares = []
    for label in range(3):
        labels = np.full(200_000, label)
        drawn = randomised_response(labels, 3, epsilon, RandomBits.seeded(1, label))
        shares.append(np.bincount(drawn, minlength=3) / len(drawn))
    ratios = np.stack(shares).max(axis=0) / np.stack(shares).min(axis=0)
    assert ratios == pytest.approx(np.full(3, math.exp(epsilon)), rel=0.05)


def test_unknown_labels_and_single_classes_stay() -> None:
    labels = np.array([UNLABELLED, 0, 0, UNLABELLED])
    assert (randomised_response(labels, 1, 0.1, RandomBits.seeded(1)) == labels).all()
    drawn = randomised_response(np.full(1000, UNLABELLED), 4, 0.1, RandomBits.seeded(1))
    assert (drawn == UNLABELLED).all()
    assert (randomised_response(np.arange(4), 4, 100.0, RandomBits.seeded(1)) == range(4)).all()


def test_only_training_labels_are_exchanged_and_they_stay_so(tmp_path: Path) -> None:
    graph = two_groups(400)
    config = settings(label_privacy="randomised-response", label_epsilon=0.5)
    first, promise = private_labels(graph, config, tmp_path)
    again, same = private_labels(graph, config, tmp_path)
    differs = first.labels != graph.labels
    assert differs[graph.train].mean() == pytest.approx(1 / (1 + math.exp(0.5)), abs=0.15)
    assert not differs[~graph.train].any()
    assert (first.labels == again.labels).all()
    assert promise == same
    elsewhere, other = private_labels(graph, config, tmp_path / "other")
    assert (elsewhere.labels != first.labels).any()
    assert promise != other


@pytest.mark.parametrize("classes", [2, 5])
def test_labels_of_a_smaller_epsilon_are_drawn_from_those_of_the_largest(
    classes: int, tmp_path: Path
) -> None:
    """With ever other ε a coordinator would get ever other draws of the true labels."""
    graph = two_groups(40)
    names = tuple(f"c{i}" for i in range(classes))
    labels = np.random.default_rng(0).integers(classes, size=graph.num_nodes)
    graph = replace(graph, labels=labels, class_names=names)
    kept: list[float] = []
    draws: set[tuple[str, float]] = set()
    for number in range(300):
        asked = 0.5 + number / 1000
        config = settings(label_privacy="randomised-response", label_epsilon=asked)
        drawn, promise = private_labels(graph, config, tmp_path, most=2.0)
        assert promise is not None
        draws.add((promise.draw, promise.noise))
        kept.append(float((drawn.labels == graph.labels)[graph.train].mean()))
    assert len(draws) == 1
    assert {noise for _, noise in draws} == {1 / 2.0}
    # The mean over all draws is that of the one they are drawn from, not of the true labels.
    expected = math.exp(0.65) / (math.exp(0.65) + classes - 1)
    assert np.mean(kept) == pytest.approx(expected, abs=0.2)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FEDGT_STATE", str(tmp_path / "state"))
    two_groups().save(tmp_path / "data")
    return tmp_path


def play(home: Path, run: str, last: int, **changed: Scalar) -> dict[str, float | str]:
    node = NodeConfig(institution="alba", data_dir=str(home / "data"))
    client = FedGTClient.open(node, settings(**changed), run)
    for number in range(1, last + 1):
        arrays = client.get_parameters({})
        upload, _, metrics = client.fit(NamedArrays(arrays.as_dict()), {"round": number})
        assert upload
    return {name: value for name, value in metrics.items() if isinstance(value, float | str)}


def spent(home: Path) -> float:
    (path,) = (home / "state" / "ledger").glob("*.jsonl")
    return Ledger(path).spent().epsilon("label")


def test_exchanged_labels_cost_once_for_all_rounds_and_runs(home: Path) -> None:
    asked: dict[str, Scalar] = {"label_privacy": "randomised-response", "label_epsilon": 2.0}
    metrics = play(home, "one", 3, **asked)
    play(home, "two", 2, method="fedavg", **asked)
    assert metrics["epsilon_label_total"] == spent(home) == 2.0
    play(home, "three", 1, **(asked | {"label_epsilon": 1.0}))
    assert spent(home) == 3.0


@pytest.mark.parametrize("method", ["fedgt", "fedavg"])
def test_private_steps_cost_what_the_run_says(home: Path, method: str) -> None:
    asked: dict[str, Scalar] = {"label_privacy": "dp-sgd", "label_epsilon": 2.0, "rounds": 3}
    metrics = play(home, "one", 3, method=method, local_epochs=2, **asked)
    assert spent(home) == pytest.approx(2.0, rel=0.01)
    assert metrics["epsilon_label_total"] == pytest.approx(2.0, rel=0.01)
    # What labels determine is not told.
    assert not math.isfinite(float(metrics.get("train_loss", math.nan)))
    assert "warnings" not in metrics


def test_private_steps_are_not_taken_again(home: Path) -> None:
    """A run's promise is of one draw a round, of as many rounds as it began with."""
    asked: dict[str, Scalar] = {"label_privacy": "dp-sgd", "label_epsilon": 2.0, "rounds": 6}
    play(home, "one", 6, **asked)
    with pytest.raises(FedGTError, match=r"round 1 is not trained again: .* round 6"):
        play(home, "one", 1, **asked)
    for key, value in (("rounds", 12), ("label_epsilon", 1.0), ("label_privacy", "off")):
        with pytest.raises(FedGTError, match="when run one began: with label-privacy dp-sgd"):
            play(home, "one", 1, **(asked | {key: value}))
    assert spent(home) == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(
    "changed", [{"lr": 0.5}, {"gradient_clip": 0.5}, {"wire_precision": "float32"}]
)
def test_private_steps_are_not_drawn_again_under_other_settings(
    home: Path, changed: dict[str, Scalar]
) -> None:
    """A hostile coordinator changes what is not of the promise, and asks for the same round."""
    asked: dict[str, Scalar] = {"label_privacy": "dp-sgd", "label_epsilon": 2.0, "rounds": 6}
    play(home, "one", 1, **asked)
    before = spent(home)
    for _ in range(2):
        with pytest.raises(FedGTError, match=r"round 1 is not trained again: .* that would pass"):
            play(home, "one", 1, **(asked | changed))
    assert spent(home) == before
