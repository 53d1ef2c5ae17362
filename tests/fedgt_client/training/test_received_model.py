"""When an institution finds itself worse off."""

import pytest
import torch

from fedgt_client.model.graph_tensors import GraphTensors
from fedgt_client.training.received_model import is_worse, remembered, validated
from tests.fedgt_client.graphs import two_groups

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


@pytest.mark.parametrize(
    ("right", "expected"),
    [(10, False), (9, False), (8, True), (0, True)],
)
def test_in_steps_two_steps_less_are_worse(right: int, expected: bool) -> None:
    graph = of_ten_nodes()
    step, earlier = 0.1, NOBODY
    for good in (10, 7, 9):
        earlier = remembered(earlier, validated(graph, scores(graph, good), step))
    now = validated(graph, scores(graph, right), step)
    assert is_worse(now, earlier, step) is expected
    # Nothing but the step counts: not how sure the model is.
    assert torch.equal(now, validated(graph, 1e6 * scores(graph, right), step))


def test_in_steps_without_nodes_nothing_is_worse() -> None:
    graph = of_ten_nodes()
    graph.splits["val"] = graph.splits["val"][:0]
    nothing = validated(graph, scores(graph, 0), 0.1)
    assert not is_worse(nothing, remembered(NOBODY, nothing), 0.1)


def of_ten_nodes() -> GraphTensors:
    graph = GraphTensors.of(two_groups(), torch.device("cpu"))
    graph.splits["val"] = torch.arange(10)
    return graph


def scores(graph: GraphTensors, right: int) -> torch.Tensor:
    """Return scores that name the class of so many validation nodes, and another of the rest."""
    labels = graph.labels[graph.splits["val"]]
    named = torch.where(torch.arange(len(labels)) < right, labels, 1 - labels)
    return torch.nn.functional.one_hot(named, 2).float()
