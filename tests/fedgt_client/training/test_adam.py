"""Adam is torch's to the bit, and does not load torch's compiler."""

import subprocess
import sys

import pytest
import torch

from fedgt_client.training.adam import Adam

NAN = float("nan")


@pytest.mark.parametrize("decoupled", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_steps_are_those_of_torch_to_the_bit(decoupled: bool, decay: float) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = (33, 5), (7,), (2, 2)
    start = [torch.randn(shape, generator=generator) for shape in shapes]
    ours, theirs = ([one.clone().requires_grad_() for one in start] for _ in range(2))
    adam = Adam(ours, lr=0.02, weight_decay=decay, decoupled_weight_decay=decoupled, epsilon=1e-4)
    torch_adam = torch.optim.Adam(
        theirs, 0.02, eps=1e-4, weight_decay=decay, decoupled_weight_decay=decoupled, fused=True
    )
    for number in range(5):
        adam.zero_grad()
        torch_adam.zero_grad()
        # The last parameter has a gradient in every other step, in the first none.
        for index in range(2 + number % 2):
            gradient = torch.randn(shapes[index], generator=generator)
            ours[index].grad, theirs[index].grad = gradient, gradient.clone()
        adam.lr = torch_adam.param_groups[0]["lr"] = 0.02 / (1 + number)
        adam.step()
        torch_adam.step()
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)
        assert adam.state[one].keys() == torch_adam.state[other].keys()
        for key, value in adam.state[one].items():
            assert torch.equal(value, torch_adam.state[other][key])


def test_a_step_with_a_gradient_that_is_not_finite_is_not_taken() -> None:
    weight = torch.ones(2, requires_grad=True)
    adam = Adam([weight], lr=0.1)
    for gradient, skipped in ((1.0, 0.0), (NAN, 1.0)):
        weight.grad = torch.full((2,), gradient)
        adam.step(found_inf=torch.tensor(skipped))
        assert weight.tolist() == pytest.approx([0.9, 0.9])
    assert adam.state[weight]["step"].item() == 1.0


def test_without_gradients_nothing_moves() -> None:
    weight = torch.ones(2, requires_grad=True)
    adam = Adam([weight], lr=0.1, weight_decay=0.5)
    adam.step()
    assert weight.tolist() == [1.0, 1.0]
    assert adam.state == {}


def test_the_compiler_of_torch_is_not_loaded() -> None:
    code = (
        "import sys, torch; from fedgt_client.training.adam import Adam\n"
        "from fedgt_client.training.optimiser import take_step\n"
        "weight = torch.ones(2, requires_grad=True)\n"
        "take_step(Adam([weight], lr=0.1), weight.sum())\n"
        "assert not {'torch._dynamo', 'torch._inductor'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
