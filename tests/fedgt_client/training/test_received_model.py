"""When an institution finds itself worse off."""

import pytest
import torch

from fedgt_client.training.received_model import is_worse, remembered

NOBODY = torch.empty(0, 0)


def losses(mean: float, nodes: int = 50, spread: float = 0.1, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(nodes, generator=torch.Generator().manual_seed(seed))
    return mean + spread * (drawn - drawn.mean())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_worse_than_anything(bad: float) -> None:
    spoilt = losses(0.5)
    spoilt[7] = bad
    assert is_worse(spoilt, losses(9.0)[None])
    assert is_worse(spoilt, NOBODY)


def test_nothing_to_compare_with() -> None:
    assert not is_worse(losses(9.0), NOBODY)
    assert not is_worse(losses(9.0), losses(0.1, nodes=49)[None])  # other nodes
    assert not is_worse(losses(9.0, nodes=9), losses(0.1, nodes=9)[None])  # too few
    assert not is_worse(torch.empty(0), torch.empty(3, 0))


@pytest.mark.parametrize(
    ("mean", "spread", "expected"),
    [
        (0.6, 0.1, True),
        (1.4, 0.1, True),
        (0.52, 0.0, False),  # sure, but too little
        (0.6, 2.0, False),  # much, but it may be chance
        (0.3, 0.1, False),
    ],
)
def test_worse_by_more_than_chance(mean: float, spread: float, expected: bool) -> None:
    own = losses(0.5, spread=0.0)
    assert is_worse(losses(mean, spread=spread), own[None]) is expected


def test_the_best_of_the_last_five_rounds_counts() -> None:
    earlier = NOBODY
    for mean in (0.1, 0.5, 0.6, 0.7, 0.8, 0.9):
        earlier = remembered(earlier, losses(mean))
    assert len(earlier) == 5
    assert is_worse(losses(0.6), earlier)
    assert not is_worse(losses(0.51), earlier)
    assert len(remembered(earlier, losses(0.1, nodes=3))) == 1  # other nodes
