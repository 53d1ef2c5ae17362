"""The step that the coordinator takes along the institutions' gradients."""

import numpy as np
import pytest
import torch

from fedgt_server.common_model import CommonModel, adam_step
from shared.wire import Arrays

NAME = "common.weight"


def gradient(*values: float) -> Arrays:
    return {NAME: np.array(values, np.float32)}


def model(*, robust: bool = True) -> CommonModel:
    return CommonModel(gradient(1.0, -2.0), robust=robust)


def stepped(*gradients: Arrays, robust: bool = True) -> list[float]:
    common = model(robust=robust)
    for index, one in enumerate(gradients):
        common.receive(f"bank-{index}", one)
    common.step([f"bank-{index}" for index in range(len(gradients))])
    return [float(value) for value in common.message()[NAME]]


def test_without_gradients_nothing_moves() -> None:
    common = model()
    common.step([])
    assert common.message()[NAME].tolist() == [1.0, -2.0]


def test_a_gradient_that_is_refused_does_not_count() -> None:
    common = model()
    common.receive("alba", gradient(1.0, 1.0))
    common.receive("mallory", gradient(-9.0, -9.0))
    common.refuse("mallory")
    common.step(["alba"])
    assert common.message()[NAME].tolist() == stepped(gradient(1.0, 1.0))


def test_steps_that_leave_the_finite_numbers_are_not_taken() -> None:
    assert stepped(gradient(3e38, 3e38), robust=False) == [1.0, -2.0]


def test_steps_are_those_of_adam_in_torch() -> None:
    weight = torch.tensor([1.0, -2.0, 0.5], requires_grad=True)
    adam = torch.optim.Adam([weight], lr=0.02, weight_decay=5e-4)
    ours, moments = weight.detach().numpy().copy(), np.zeros((2, 3), np.float32)
    rng = np.random.default_rng(0)
    for number in range(1, 6):
        found = rng.standard_normal(3).astype(np.float32)
        weight.grad = torch.from_numpy(found)
        adam.step()
        ours, moments = adam_step(ours, found, moments, number)
    assert ours == pytest.approx(weight.detach().numpy(), abs=1e-6)


def test_the_mean_of_gradients_decides_by_hand() -> None:
    # Adam's first step is as long as its rate, in the direction of the mean of all.
    assert stepped(gradient(3.0, -1.0), gradient(-1.0, -1.0)) == pytest.approx([0.98, -1.98])


def test_nobody_counts_more_than_the_median_of_others() -> None:
    honest = [gradient(1.0, 1.0)] * 4
    assert stepped(*honest, gradient(-1e5, -1e5)) == pytest.approx([0.98, -2.02])
    assert stepped(*honest, gradient(-1e5, -1e5), robust=False) == pytest.approx([1.02, -1.98])


def test_it_goes_on_from_a_checkpoint_to_the_bit() -> None:
    common = model()
    for number in range(3):
        common.receive("alba", gradient(1.0, float(number)))
        common.step(["alba"])
    again = CommonModel.restored(common.state_dict(), robust=True)
    for one in (common, again):
        one.receive("alba", gradient(-1.0, 2.0))
        one.step(["alba"])
    assert again.message()[NAME].tobytes() == common.message()[NAME].tobytes()
