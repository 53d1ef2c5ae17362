"""DP-SGD over training nodes."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedgt_client.methods import client_method
from fedgt_client.methods.trained import TrainedMethod
from fedgt_client.privacy.mechanism import NoiseMechanism
from fedgt_client.training.adam import Adam
from fedgt_client.training.private_steps import (
    gradient_noise,
    private_passes,
    train_privately,
    trained_parameters,
)
from fedgt_client.training.seeding import seed_round
from tests.fedgt_client.graphs import settings, two_groups

CLIP = 0.05


def test_without_the_setting_there_is_no_noise() -> None:
    assert gradient_noise(settings()) is None


def test_noise_of_a_run_grows_with_its_steps() -> None:
    short, long = (
        gradient_noise(settings(label_privacy="dp-sgd", rounds=rounds, gradient_clip=2.0))
        for rounds in (1, 100)
    )
    assert short is not None
    assert long is not None
    assert long.noise == pytest.approx(10 * short.noise, rel=1e-3)
    # δ = 1e-5, ε = 4: σ = 1.08 sensitivities (2C) for one step.
    assert short.noise == pytest.approx(1.08 * 4.0, rel=0.01)


def summed(method_name: str, layers: str, flipped: int | None = None) -> np.ndarray:
    """Return the sum of clipped gradients before its noise; a label may be another."""
    graph = two_groups()
    if flipped is not None:
        labels = graph.labels.copy()
        labels[flipped] = 1 - labels[flipped]
        graph = replace(graph, labels=labels)
    config = settings(
        method=method_name, label_privacy="dp-sgd", private_layers=layers, dropout=0.5
    )
    method = client_method(graph, config, "alba")
    assert isinstance(method, TrainedMethod)
    found: list[np.ndarray] = []

    class Noted(NoiseMechanism):
        def noised(self, whole, draw=()):  # type: ignore[no-untyped-def]
            found.append(whole * (self.noise / 2**20))
            return super().noised(whole, draw)

    seed_round(config, "alba", 1)
    noise = Noted("l2", CLIP, CLIP, 0)
    passes = private_passes(method.task, config)
    parameters = trained_parameters(method.task.model, config)
    train_privately(method.task, method._optimiser.adam, passes, parameters, noise, (1,))
    return found[0]


@pytest.mark.parametrize("layers", ["head", "all"])
@pytest.mark.parametrize("name", ["fedgt", "fedavg"])
def test_another_label_moves_the_sum_by_two_clips_at_most(
    name: str,
    layers: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path_factory.mktemp("cache")))
    graph = two_groups()
    before = summed(name, layers)
    assert np.linalg.norm(before) > 2 * CLIP
    trained = int(np.flatnonzero(graph.train)[0])
    moved = np.linalg.norm(summed(name, layers, trained) - before)
    assert CLIP < moved <= 2 * CLIP
    # Labels of other nodes are not used at all.
    for other in (graph.val, graph.test):
        node = int(np.flatnonzero(other)[0])
        assert (summed(name, layers, node) == before).all()


def test_a_step_goes_along_the_noisy_mean() -> None:
    graph = two_groups()
    config = settings(method="fedavg", label_privacy="dp-sgd")
    method = client_method(graph, config, "alba")
    assert isinstance(method, TrainedMethod)
    seed_round(config, "alba", 1)
    passes, parameters = method.task.single_passes(), list(method.task.model.parameters())
    adam = Adam(parameters, lr=1.0)
    noise = NoiseMechanism("l2", 1.0, 8.0, 0)
    train_privately(method.task, adam, passes, parameters, noise, (1,))
    # After one step the first moment is a tenth of the gradient.
    gradient = torch.cat([10 * adam.state[one]["exp_avg"].reshape(-1) for one in parameters])
    assert gradient.std().item() == pytest.approx(8.0 / graph.train.sum(), rel=0.1)


@pytest.mark.parametrize("name", ["fedgt", "fedavg"])
def test_with_the_head_alone_nothing_else_moves(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path_factory.mktemp("cache")))
    method = client_method(two_groups(), settings(method=name, label_privacy="dp-sgd"), "alba")
    start = method.initial_arrays()
    upload = method.fit(start, 1).upload
    moved = {key for key in start if np.abs(upload[key]).max() > 0}
    expected = {
        "fedgt": {"head.weight", "head.bias"},
        "fedavg": {"layers.1.neighbours", "layers.1.own", "layers.1.bias"},
    }
    assert moved == expected[name]
