"""Hybrid attention against torch's full attention, and Theorem 1."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fedgt_client.model.attention import Affine, HybridAttention
from fedgt_client.model.blocks import AttentionBlock

WIDTH, HEADS = 16, 4
NOBODY = torch.empty(0, WIDTH)


def attention(*, ppr_bias: bool = False) -> HybridAttention:
    """With weights large enough that attention is far from uniform."""
    module = HybridAttention(WIDTH, HEADS, ppr_bias=ppr_bias)
    for projection in (module.query_key_value, module.out):
        torch.nn.init.normal_(projection.weight, std=0.4)
        torch.nn.init.normal_(projection.bias, std=0.4)
    return module


def everybody_else(count: int) -> AttentionBlock:
    """Each node has all others as samples."""
    samples = torch.stack([torch.tensor([j for j in range(count) if j != i]) for i in range(count)])
    return AttentionBlock(
        None, samples, torch.ones_like(samples).bool(), torch.zeros_like(samples).float()
    )


def alone(count: int) -> AttentionBlock:
    """Nobody has anybody."""
    masked = torch.zeros(count, 1)
    return AttentionBlock(None, masked.long(), masked.bool(), masked)


def full_attention(module: HybridAttention, queries: Tensor, others: Tensor) -> Tensor:
    """torch's own, of ``queries`` over ``others``."""

    def heads(rows: Tensor) -> Tensor:
        return rows.view(1, -1, HEADS, WIDTH // HEADS).transpose(1, 2)

    query = module.query_key_value(queries)[:, :WIDTH]
    key, value = module.query_key_value(others)[:, WIDTH:].split(WIDTH, dim=1)
    attended = functional.scaled_dot_product_attention(heads(query), heads(key), heads(value))
    output: Tensor = module.out(attended.transpose(1, 2).reshape(len(queries), WIDTH))
    return output


def close(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found, expected, atol=1e-5)


def test_an_affine_map_is_part_of_the_projections() -> None:
    module, affine = attention(), Affine(WIDTH)
    for parameter in affine.parameters():
        torch.nn.init.normal_(parameter)
    nodes, distant, block = torch.randn(7, WIDTH), torch.randn(3, WIDTH), everybody_else(7)
    to = module.projections(affine)
    tables = module.keys_and_values(to, nodes, distant)
    found = module.attend(to, nodes, *tables, len(distant), block)
    mapped = affine(nodes), affine(distant)
    assert close(found, module(*mapped, block))
    learned = (affine.weight, affine.bias, module.query_key_value.weight)
    gradients = torch.autograd.grad(found.square().sum(), learned)
    expected = torch.autograd.grad(module(*mapped, block).square().sum(), learned)
    for gradient, other in zip(gradients, expected, strict=True):
        assert torch.allclose(gradient, other, rtol=1e-3, atol=1e-4)


def test_all_nodes_as_samples_is_full_attention() -> None:
    module, nodes = attention(), torch.randn(9, WIDTH)
    expected = full_attention(module, nodes, nodes)
    assert close(module(nodes, NOBODY, everybody_else(9)), expected)
    # With the bias, equal log-weights of 0 and no global nodes change nothing.
    biased = attention(ppr_bias=True)
    biased.load_state_dict(module.state_dict(), strict=False)
    assert close(biased(nodes, NOBODY, everybody_else(9)), expected)


def test_gradients_are_those_of_full_attention() -> None:
    module, nodes = attention(), torch.randn(6, WIDTH)
    weights = module.query_key_value.weight
    (hybrid,) = torch.autograd.grad(module(nodes, NOBODY, everybody_else(6)).sum(), weights)
    (full,) = torch.autograd.grad(full_attention(module, nodes, nodes).sum(), weights)
    assert torch.allclose(hybrid, full, atol=1e-4)


def test_global_nodes_share_the_softmax() -> None:
    module, nodes, distant = attention(), torch.randn(7, WIDTH), torch.randn(3, WIDTH)
    expected = full_attention(module, nodes, torch.cat([nodes, distant]))
    assert close(module(nodes, distant, everybody_else(7)), expected)


def test_global_nodes_get_attention() -> None:
    module, nodes = attention(ppr_bias=True), torch.randn(5, WIDTH)
    near, far = (module(nodes, shift + torch.randn(3, WIDTH), alone(5)) for shift in (0.0, 3.0))
    assert (near - far).abs().max() > 1e-2
    swapped = torch.randn(3, WIDTH)
    assert close(module(nodes, swapped, alone(5)), module(nodes, swapped[[2, 0, 1]], alone(5)))


def test_alone_a_node_keeps_its_own_value() -> None:
    module, nodes = attention(), torch.randn(4, WIDTH)
    value = module.query_key_value(nodes)[:, 2 * WIDTH :]
    assert close(module(nodes, NOBODY, alone(4)), module.out(value))


def masked_block() -> AttentionBlock:
    samples = torch.tensor([[1, 2, 3], [0, 2, 2], [0, 1, 3], [3, 3, 3]])
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 0]]).bool()
    return AttentionBlock(None, samples, mask, torch.randn(4, 3).masked_fill(~mask, 0.0))


def test_masked_samples_have_no_influence() -> None:
    module, nodes, block = attention(ppr_bias=True), torch.randn(4, WIDTH), masked_block()
    expected = module(nodes, NOBODY, block)
    elsewhere = torch.where(block.mask, block.samples, torch.randint(4, (4, 3)))
    noise = torch.where(block.mask, block.log_weight, torch.randn(4, 3) * 9)
    assert close(
        module(nodes, NOBODY, AttentionBlock(None, elsewhere, block.mask, noise)), expected
    )
    # The last node has nobody left: it attends to itself.
    assert close(expected[3:], module(nodes[3:], NOBODY, alone(1)))
    # Three samples of which one is masked are two samples.
    two = AttentionBlock(None, block.samples[:, :2], block.mask[:, :2], block.log_weight[:, :2])
    assert close(module(nodes, NOBODY, two)[0], expected[0])


def test_order_of_samples_does_not_matter() -> None:
    module, nodes, block = attention(ppr_bias=True), torch.randn(4, WIDTH), masked_block()
    order = torch.tensor([2, 0, 1])
    shuffled = AttentionBlock(
        None, block.samples[:, order], block.mask[:, order], block.log_weight[:, order]
    )
    assert close(module(nodes, NOBODY, shuffled), module(nodes, NOBODY, block))


def test_log_weights_count_samples() -> None:
    """A sample of weight 2 is two samples of weight 1, at the scale that the model starts with."""
    module, nodes = attention(ppr_bias=True), torch.randn(3, WIDTH)
    twice = AttentionBlock(
        torch.tensor([0]), torch.tensor([[1, 1, 2]]), torch.ones(1, 3).bool(), torch.zeros(1, 3)
    )
    once = AttentionBlock(
        torch.tensor([0]),
        torch.tensor([[1, 2]]),
        torch.ones(1, 2).bool(),
        torch.tensor([[math.log(2.0), 0.0]]),
    )
    assert close(module(nodes, NOBODY, twice), module(nodes, NOBODY, once))


def test_queries_choose_rows() -> None:
    module, nodes, block = attention(ppr_bias=True), torch.randn(4, WIDTH), masked_block()
    chosen = torch.tensor([2, 0])
    some = AttentionBlock(
        chosen, block.samples[chosen], block.mask[chosen], block.log_weight[chosen]
    )
    assert close(module(nodes, NOBODY, some), module(nodes, NOBODY, block)[chosen])


def test_copies_of_global_nodes_as_samples_are_global_nodes() -> None:
    """The lemma O(Pμ) = O(μ) of Theorem 1 in this module: n_i / n_g nodes at each centre."""
    copies, count = 4, 3
    module, nodes, centres = attention(ppr_bias=True), torch.randn(5, WIDTH), torch.randn(3, WIDTH)
    with torch.no_grad():
        assert module.global_bias is not None
        module.global_bias.zero_()
    around = torch.cat([nodes, centres.repeat_interleave(copies, dim=0)])
    samples = torch.arange(5, 5 + copies * count).expand(5, -1)
    weight = torch.full(samples.shape, -math.log(copies))
    block = AttentionBlock(torch.arange(5), samples, torch.ones_like(samples).bool(), weight)
    assert close(module(around, NOBODY, block), module(nodes, centres, alone(5)))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0.05, 0.5, 2.0])
def test_theorem_1(seed: int, noise: float) -> None:
    """‖O(μ) − O(H)‖ ≤ C σ (2 + σ) ‖H‖² ‖W_V‖ where nodes spread evenly over the global nodes.

    The proof uses of C that ‖A(Pμ) − A(H)‖ ≤ C ‖Pμ − H‖ and ‖A(H)‖ ≤ C ‖H‖.
    """
    torch.manual_seed(seed)
    copies, count, width, batch = 5, 4, 6, 7
    query, key, value = (torch.randn(width, width, dtype=torch.float64) * 0.3 for _ in range(3))
    centres = torch.randn(count, width, dtype=torch.float64)
    assignment = torch.eye(count, dtype=torch.float64).repeat_interleave(copies, dim=0)
    noisy = torch.randn(count * copies, width, dtype=torch.float64)
    nodes = assignment @ centres + noise * noisy
    batched = torch.randn(batch, width, dtype=torch.float64)

    def score(rows: Tensor) -> Tensor:
        return torch.softmax(batched @ query @ (rows @ key).T, dim=1)

    def output(rows: Tensor) -> Tensor:
        return score(rows) @ rows @ value

    recovered = assignment @ centres
    assert torch.allclose(output(recovered), output(centres))
    sigma = float((nodes - recovered).norm() / nodes.norm())
    constant = max(
        float((score(recovered) - score(nodes)).norm() / (recovered - nodes).norm()),
        float(score(nodes).norm() / nodes.norm()),
    )
    bound = constant * sigma * (2 + sigma) * float(nodes.norm()) ** 2 * float(value.norm())
    error = float((output(centres) - output(nodes)).norm())
    assert 0 < error <= bound
    # Better centres of the same nodes, a smaller error: the mean of each group.
    means = nodes.view(count, copies, width).mean(dim=1)
    assert float((nodes - assignment @ means).norm() / nodes.norm()) < sigma
