"""Attention to sampled rows against torch's own gather, softmax and gradients."""

import math

import pytest
import torch
from torch import Tensor

from fedgt_client.model.sparse_attention import AttendedRows, attend

QUERIES, NODES, CHOSEN, COMMON, HEADS, SIZE = 5, 7, 3, 2, 2, 4
WIDTH = HEADS * SIZE


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def attended_rows(queries: int = QUERIES, common: int = COMMON) -> tuple[AttendedRows, Tensor]:
    """Attend to few nodes, some often and some never; also return the rows of every query."""
    chosen = torch.randint(NODES - 3, (queries, CHOSEN))
    last = torch.arange(NODES, NODES + common).expand(queries, -1)
    return AttendedRows(chosen, common, NODES, HEADS), torch.cat([chosen, last], dim=1)


def gathered(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, rows: Tensor) -> Tensor:
    """Return the same attention by gathering all keys and values."""
    query = query.view(-1, HEADS, 1, SIZE)
    keys, values = (
        table[rows].view(*rows.shape, HEADS, SIZE).transpose(1, 2) for table in (key, value)
    )
    weights = ((query * keys).sum(-1) / math.sqrt(SIZE) + bias).softmax(dim=-1)
    return (weights.unsqueeze(-1) * values).sum(2).reshape(-1, WIDTH)


@pytest.mark.parametrize("common", [0, COMMON])
@pytest.mark.parametrize("seed", range(5))
def test_outputs_and_gradients(seed: int, common: int) -> None:
    torch.manual_seed(seed)
    sparse, rows = attended_rows(common=common)
    tables = random(NODES + common, WIDTH), random(NODES + common, WIDTH)
    inputs = (random(QUERIES, WIDTH), *tables, random(QUERIES, HEADS, CHOSEN + common))
    found, expected = attend(*inputs, sparse), gathered(*inputs, rows)
    assert torch.allclose(found, expected, atol=1e-6)
    direction = torch.randn_like(expected)
    pairs = zip(
        torch.autograd.grad((found * direction).sum(), inputs),
        torch.autograd.grad((expected * direction).sum(), inputs),
        strict=True,
    )
    for one, other in pairs:
        assert torch.allclose(one, other, atol=1e-5)


def test_a_masked_row_gets_no_weight_and_no_gradient() -> None:
    rows = AttendedRows(torch.tensor([[0, 1]]), 0, 2, HEADS)
    query, key, value = random(1, WIDTH), random(2, WIDTH), random(2, WIDTH)
    bias = torch.zeros(1, HEADS, 2)
    bias[..., 1] = -torch.inf
    found = attend(query, key, value, bias, rows)
    assert torch.allclose(found[0], value[0])
    of_key, of_value = torch.autograd.grad(found.sum(), [key, value])
    assert not of_key.any()
    assert of_value.tolist() == [[1.0] * WIDTH, [0.0] * WIDTH]


def test_no_queries() -> None:
    rows, _ = attended_rows(queries=0)
    key, value = random(NODES + COMMON, WIDTH), random(NODES + COMMON, WIDTH)
    bias = torch.empty(0, HEADS, CHOSEN + COMMON)
    found = attend(torch.empty(0, WIDTH), key, value, bias, rows)
    assert found.shape == (0, WIDTH)
    for gradient in torch.autograd.grad(found.sum(), [key, value]):
        assert not gradient.any()


def test_full_precision_within_autocast() -> None:
    sparse, rows = attended_rows()
    query, table = random(QUERIES, WIDTH), random(NODES + COMMON, WIDTH)
    bias, halved = torch.zeros(QUERIES, HEADS, CHOSEN + COMMON), table.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        found = attend(query, halved, halved, bias, sparse)
    assert found.dtype == torch.float32
    expected = gathered(query, halved.float(), halved.float(), bias, rows)
    assert torch.allclose(found, expected, atol=1e-6)
    found.sum().backward()
    assert table.grad is not None
