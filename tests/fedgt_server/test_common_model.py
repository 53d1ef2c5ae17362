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


def turned(common: CommonModel, **gradients: tuple[float, float]) -> list[str]:
    for name, values in gradients.items():
        common.receive(name, gradient(*values))
    return common.step(gradients)


def settled() -> CommonModel:
    """Return a model whose three institutions have kept their directions for ten rounds."""
    common = model()
    for _ in range(10):
        assert turned(common, alba=(1, 1), brno=(1, 0), mallory=(0, 1)) == []
    return common


@pytest.mark.parametrize("values", [(0.0, -1.0), (0.0, -1e6), (1.0, 0.0), (0.0, 0.0)])
def test_a_gradient_that_turns_after_a_while_is_left_out(values: tuple[float, float]) -> None:
    common, without = settled(), settled()
    assert turned(common, alba=(1, 1), brno=(1, 0), mallory=values) == ["mallory"]
    turned(without, alba=(1, 1), brno=(1, 0))
    assert common.message()[NAME].tolist() == without.message()[NAME].tolist()


def test_without_robust_nothing_is_left_out() -> None:
    common = model(robust=False)
    for sign in (1, 1, 1, -1):
        assert turned(common, alba=(1, 1), brno=(1, 0), mallory=(0, sign)) == []
    kept = {NAME, f"moments.{NAME}", "steps", "asked.alba", "asked.brno", "asked.mallory"}
    assert common.state_dict().keys() == kept


def test_the_first_gradient_is_not_judged() -> None:
    common = settled()
    assert turned(common, alba=(1, 1), brno=(1, 0), mallory=(0, 1), newcomer=(-1, -1)) == []


def test_where_half_turn_nobody_is_left_out() -> None:
    common = settled()
    assert turned(common, alba=(-1, -1), brno=(-1, 0), mallory=(0, 1)) == []
    # It is remembered: to turn back is what stands out now, once it has become the usual.
    for _ in range(20):
        turned(common, alba=(-1, -1), brno=(-1, 0), mallory=(0, 1))
    assert turned(common, alba=(1, 1), brno=(-1, 0), mallory=(0, 1)) == ["alba"]
    two = model()
    for sign in (1, 1, 1, -1):
        assert turned(two, alba=(1, 1), mallory=(0, sign)) == []


def test_who_insists_on_the_opposite_stays_out_and_another_direction_comes_back() -> None:
    # Usual after ten rounds: a mean that forgets a tenth in each, of 0 once and of 1 nine times.
    # Asked is 0.4 of it less 0.05; at a right angle that is met once 0.4 · usual · 0.9^k <= 0.05.
    usual = 1.0 - 0.9**9
    rounds = next(k for k in range(99) if 0.4 * usual * 0.9**k - 0.05 <= 0.0)
    against, aside = settled(), settled()
    for number in range(30):
        assert turned(against, alba=(1, 1), brno=(1, 0), mallory=(0, -1)) == ["mallory"]
        left_out = turned(aside, alba=(1, 1), brno=(1, 0), mallory=(1, 0)) == ["mallory"]
        assert left_out == (number < rounds)
    assert rounds == 16


def test_who_was_absent_is_judged_by_what_was_before() -> None:
    common = settled()
    for _ in range(5):
        turned(common, alba=(1, 1), brno=(1, 0))
    assert turned(common, alba=(1, 1), brno=(1, 0), mallory=(0, 1)) == []
    assert turned(common, alba=(1, 1), brno=(1, 0), mallory=(0, -1)) == ["mallory"]


def test_what_is_refused_is_not_remembered() -> None:
    common, other = settled(), settled()
    common.receive("mallory", gradient(0, -1))
    common.refuse("mallory")
    for one in (common, other):
        turned(one, alba=(1, 1), brno=(1, 0))
    for key, value in common.state_dict().items():
        assert value.tobytes() == other.state_dict()[key].tobytes()


def test_what_institutions_have_asked_for_is_the_sum_of_their_directions() -> None:
    common = model(robust=False)
    for length in (1.0, 1e3):  # the length of a gradient does not count
        common.receive("mallory", gradient(9.0, 9.0))
        common.refuse("mallory")
        turned(common, alba=(length, 0), brno=(0, -length))
    asked = common.asked(["alba", "brno", "mallory"])
    assert np.sort(np.abs(asked[:2]), axis=1)[:, -2:].tolist() == [[0.0, 2.0], [0.0, 2.0]]
    assert asked[0] @ asked[1] == 0.0
    assert not asked[2].any()


@pytest.mark.parametrize("tiny", [1e-24, 1e-38, 1e-45])
def test_a_tiny_gradient_counts_no_more_than_others(tiny: float) -> None:
    common = model(robust=False)
    turned(common, alba=(tiny, tiny), brno=(1, 0))
    lengths = np.linalg.norm(common.asked(["alba", "brno"]), axis=1)
    assert lengths == pytest.approx([1.0, 1.0], rel=1e-5)


def test_what_is_left_out_of_a_step_is_not_what_was_asked_for() -> None:
    common = settled()
    before = common.asked(["alba", "mallory"])
    turned(common, alba=(1, 1), brno=(1, 0), mallory=(0, -1))
    alba, mallory = common.asked(["alba", "mallory"]) - before
    assert np.linalg.norm(alba) == pytest.approx(1.0)
    assert not mallory.any()


def test_what_is_not_compared_is_not_kept() -> None:
    common = CommonModel(gradient(1.0, -2.0), robust=False, compared=False)
    turned(common, alba=(1, 1), brno=(1, 0))
    assert common.state_dict().keys() == {NAME, f"moments.{NAME}", "steps"}


def test_a_checkpoint_in_another_order_judges_alike() -> None:
    first = {"common.b": np.ones(3, np.float32), "common.a": np.full((2, 2), 2.0, np.float32)}
    common = CommonModel(first, robust=True)
    rng = np.random.default_rng(0)
    sent = [{n: rng.standard_normal(a.shape).astype(np.float32) for n, a in first.items()}] * 12
    for one in sent[:-1]:
        for name in ("alba", "brno", "mallory"):
            common.receive(name, one)
        common.step(["alba", "brno", "mallory"])
    saved = dict(sorted(common.state_dict().items()))
    again = CommonModel.restored(saved, robust=True)
    for model in (common, again):
        for name in ("alba", "brno"):
            model.receive(name, sent[-1])
        model.receive("mallory", {n: -a for n, a in sent[-1].items()})
        assert model.step(["alba", "brno", "mallory"]) == ["mallory"]
    for key, value in common.state_dict().items():
        assert value.tobytes() == again.state_dict()[key].tobytes()


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
