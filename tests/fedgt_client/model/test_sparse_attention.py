"""Products over sampled rows against torch's own gather and its gradients."""

import pytest
import torch
from torch import Tensor

from fedgt_client.model.sparse_attention import SparseAttention

QUERIES, NODES, SAMPLES, HEADS, SIZE = 5, 7, 3, 2, 4


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def problem() -> tuple[SparseAttention, Tensor]:
    """Attend to few nodes, some often and some never; also return the rows this means."""
    samples = torch.randint(NODES - 3, (QUERIES, SAMPLES))
    rows = torch.tensor(
        [
            [int(node) * HEADS + head for node in chosen]
            for chosen in samples
            for head in range(HEADS)
        ]
    )
    return SparseAttention(samples, HEADS, NODES), rows


def same_with_gradients(found: Tensor, expected: Tensor, inputs: list[Tensor]) -> bool:
    direction = torch.randn_like(expected)
    pairs = zip(
        torch.autograd.grad((found * direction).sum(), inputs),
        torch.autograd.grad((expected * direction).sum(), inputs),
        strict=True,
    )
    return torch.allclose(found, expected, atol=1e-6) and all(
        torch.allclose(one, other, atol=1e-5) for one, other in pairs
    )


@pytest.mark.parametrize("seed", range(5))
def test_scores(seed: int) -> None:
    torch.manual_seed(seed)
    sparse, rows = problem()
    queries, keys = random(QUERIES * HEADS, SIZE), random(NODES * HEADS, SIZE)
    expected = (queries[:, None] * keys[rows]).sum(-1)
    assert same_with_gradients(sparse.scores(queries, keys), expected, [queries, keys])


@pytest.mark.parametrize("seed", range(5))
def test_weighted_sum(seed: int) -> None:
    torch.manual_seed(seed)
    sparse, rows = problem()
    weights, values = random(QUERIES * HEADS, SAMPLES), random(NODES * HEADS, SIZE)
    expected = (weights[:, :, None] * values[rows]).sum(1)
    assert same_with_gradients(sparse.weighted_sum(weights, values), expected, [weights, values])


def test_no_queries() -> None:
    sparse = SparseAttention(torch.empty(0, SAMPLES, dtype=torch.long), HEADS, NODES)
    keys = random(NODES * HEADS, SIZE)
    scores = sparse.scores(torch.empty(0, SIZE), keys)
    assert scores.shape == (0, SAMPLES)
    (gradient,) = torch.autograd.grad(scores.sum(), keys)
    assert not gradient.any()
    assert sparse.weighted_sum(torch.empty(0, SAMPLES), keys).shape == (0, SIZE)


def test_full_precision_within_autocast() -> None:
    sparse, rows = problem()
    queries, keys = random(QUERIES * HEADS, SIZE), random(NODES * HEADS, SIZE)
    with torch.autocast("cpu", torch.bfloat16):
        scores = sparse.scores(queries, keys)
        mixed = sparse.weighted_sum(torch.softmax(scores, dim=1).bfloat16(), keys)
    assert scores.dtype == mixed.dtype == torch.float32
    assert torch.allclose(scores, (queries[:, None] * keys[rows]).sum(-1), atol=1e-6)
    mixed.sum().backward()
    assert keys.grad is not None
