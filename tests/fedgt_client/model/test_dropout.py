"""Dropout by uniform numbers does what torch's does."""

import pytest
import torch

from fedgt_client.model.dropout import Dropout, dropped


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="probability"):
        dropped(torch.ones(3), share)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_share_of_the_entries_is_zero_and_the_mean_stays(share: float) -> None:
    torch.manual_seed(0)
    found = dropped(torch.full((200_000,), 3.0), share)
    assert float((found == 0).float().mean()) == pytest.approx(share, abs=0.005)
    assert found.unique().tolist() == pytest.approx([0.0, 3.0 / (1 - share)])
    assert float(found.mean()) == pytest.approx(3.0, rel=0.03)


def test_gradients_pass_where_entries_did() -> None:
    torch.manual_seed(0)
    values = torch.ones(100, requires_grad=True)
    found = dropped(values, 0.5)
    found.sum().backward()
    assert values.grad is not None
    assert torch.equal(values.grad, found.detach())


def test_the_same_seed_drops_the_same() -> None:
    drawn = []
    for _ in range(2):
        torch.manual_seed(5)
        drawn.append(dropped(torch.ones(50), 0.5))
    assert torch.equal(*drawn)


def test_nothing_is_dropped_in_evaluation_or_without_a_share() -> None:
    values = torch.arange(5.0)
    assert torch.equal(Dropout(0.5).eval()(values), values)
    assert torch.equal(dropped(values, 0.0), values)
