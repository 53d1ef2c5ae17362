"""The model that institutions train together, at an institution."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fedgt_client.methods.common_model import in_unit_scale
from fedgt_client.methods.fedgt import FedGT
from fedgt_client.methods.local import Local
from fedgt_client.methods.mixture import best_weight
from fedgt_server.common_model import CommonModel as Coordinator
from shared.config import Scalar
from shared.wire import COMMON, Arrays
from tests.fedgt_client.graphs import settings, two_groups


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDGT_CACHE", str(tmp_path))


def institution(**changed: Scalar) -> FedGT:
    return at("alba", **changed)


def at(name: str, **changed: Scalar) -> FedGT:
    return FedGT(two_groups(), settings(**{"common_model": "chosen", **changed}), name)


def common_of(arrays: Arrays) -> Arrays:
    return {name: array for name, array in arrays.items() if name.startswith(COMMON)}


def test_without_a_common_model_or_with_dp_sgd_no_gradient_leaves() -> None:
    without: list[dict[str, Scalar]] = [
        {"common_model": "off"},
        {"ldp": "off", "label_privacy": "dp-sgd"},
    ]
    for changed in without:
        method = institution(**changed)
        assert not common_of(method.initial_arrays())
        assert not common_of(method.fit(method.initial_arrays(), 1).upload)


def test_without_training_nodes_the_gradient_is_zero() -> None:
    none = np.zeros(40, np.bool_)
    values = settings(common_model="chosen", ldp="off")
    method = FedGT(replace(two_groups(), train=none), values, "alba")
    upload = common_of(method.fit(method.initial_arrays(), 1).upload)
    assert upload
    assert all(not array.any() for array in upload.values())


def test_weights_that_are_not_finite_are_not_taken_over() -> None:
    method = institution()
    sent = method.initial_arrays()
    spoilt = {k: np.full_like(v, np.nan) if k.startswith(COMMON) else v for k, v in sent.items()}
    upload = common_of(method.fit(spoilt, 1).upload)
    assert all(np.isfinite(array).all() for array in upload.values())


def test_all_institutions_begin_with_the_same_weights() -> None:
    one, other = at("alba").initial_arrays(), at("bora").initial_arrays()
    assert common_of(one)
    for name, array in common_of(one).items():
        assert array.tobytes() == other[name].tobytes()


def test_the_personalised_model_trains_as_it_does_without() -> None:
    beside, alone = institution(), institution(common_model="off")
    for number in range(1, 3):
        with_common = beside.fit(beside.initial_arrays(), number).upload
        without = alone.fit(alone.initial_arrays(), number).upload
        for name, array in without.items():
            if name != "global_nodes":  # drawn noise
                assert array.tobytes() == with_common[name].tobytes(), name


def test_gradients_have_the_scale_of_the_noise() -> None:
    found = in_unit_scale(np.array([[3e-7, 0.0], [-4e-7, 0.0]], np.float32))
    assert found == pytest.approx(np.array([[3.0, 0.0], [-4.0, 0.0]]) / np.sqrt(12.5))
    assert not in_unit_scale(np.zeros((2, 3), np.float32)).any()


def test_gradients_are_clipped_and_get_noise_like_global_nodes() -> None:
    exact = institution(ldp="off", own_model=False)
    plain = common_of(exact.fit(exact.initial_arrays(), 1).upload)
    for ldp in ("global-nodes", "all"):
        method = institution(ldp=ldp, ldp_clip=0.5, ldp_noise=0.001, ldp_noise_seed=3)
        result = method.fit(method.initial_arrays(), 1)
        assert result.released
        assert set(common_of(result.upload)) < set(result.released.parts[0].arrays)
        for name, array in common_of(result.upload).items():
            noise = array - np.clip(plain[name], -0.5, 0.5)
            assert 0 < np.abs(noise).mean() < 0.002  # Laplace noise: λ on average


def test_it_learns_by_the_steps_of_the_coordinator() -> None:
    method = institution()
    arrays = method.initial_arrays()
    coordinator = Coordinator(common_of(arrays), robust=True)
    graph = two_groups()
    metrics: dict[str, float] = {}
    for number in range(1, 40):
        result = method.fit(arrays | coordinator.message(), number)
        coordinator.receive("alba", common_of(result.upload))
        coordinator.step(["alba"])
        metrics = result.metrics
    test = np.flatnonzero(graph.test)
    scores = method.predict(test)
    right = (scores.argmax(axis=1) == graph.labels[test]).mean()
    assert right == pytest.approx(metrics["test_accuracy"])
    assert right > 0.7
    kept = {k: v for k, v in method.state_dict().items() if not k.startswith("adam.")}
    again = institution()
    again.load_state_dict(kept)
    assert again.predict(test) == pytest.approx(scores, abs=1e-5)


def test_the_better_model_predicts_and_of_equals_the_first() -> None:
    labels = torch.tensor([0, 1, 1])
    right = torch.tensor([[5.0, 0.0], [0.0, 5.0], [0.0, 5.0]])
    assert best_weight("accuracy", right, -right, labels, first=0.5) == 0.0
    assert best_weight("accuracy", -right, right, labels, first=0.5) == 1.0
    assert best_weight("accuracy", right, right, labels, first=0.5) == 0.5
    assert best_weight("accuracy", right, right, labels, first=0.0) == 0.0
    assert best_weight("log-loss", -right, right, labels, first=0.0) == 1.0
    assert best_weight("calibration-error", right, -right, labels, first=1.0) == 0.0


def test_alone_there_is_no_common_model() -> None:
    alone = Local(two_groups(), settings(common_model="chosen"), "alba")
    alone.fit({}, 1)
    assert not common_of(alone.state_dict())
