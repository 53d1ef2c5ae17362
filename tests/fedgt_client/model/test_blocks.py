"""Neighbourhood expansion."""

import torch

from fedgt_client.model.blocks import attention_blocks
from fedgt_client.sampling import Samples

# A chain: node i attends to i + 1, the last to no node. Node 0 is not sampled by any node.
CHAIN = Samples(
    nodes=torch.tensor([[1, 0], [2, 1], [3, 2], [4, 3], [4, 4]]),
    mask=torch.tensor([[1, 0], [1, 0], [1, 0], [1, 0], [0, 0]]).bool(),
    log_weight=torch.tensor([[0.1, 0], [0.2, 0], [0.3, 0], [0.4, 0], [0, 0]]),
)


def test_what_is_needed_and_no_more() -> None:
    needed, blocks = attention_blocks(CHAIN, torch.tensor([1]), 2)
    assert needed.tolist() == [1, 2, 3]
    first, second = blocks
    assert first.queries is not None
    assert second.queries is not None
    # The first layer computes nodes 1 and 2 from 1, 2 and 3, the second node 1 from these.
    assert needed[first.queries].tolist() == [1, 2]
    assert needed[first.samples[first.mask]].tolist() == [2, 3]
    assert needed[first.queries][second.queries].tolist() == [1]
    assert needed[first.queries][second.samples[second.mask]].tolist() == [2]
    assert second.log_weight[0, 0] == 0.2


def test_order_is_kept_and_overlap_is_not_repeated() -> None:
    needed, blocks = attention_blocks(CHAIN, torch.tensor([3, 2, 0]), 1)
    assert needed.tolist() == [3, 2, 0, 1, 4]
    assert blocks[0].samples[blocks[0].mask].tolist() == [4, 0, 3]
    # Masked places stay within the input.
    assert int(blocks[0].samples.max()) < len(needed)


def test_masked_samples_bring_nobody() -> None:
    samples = Samples(torch.tensor([[0], [0], [0]]), torch.zeros(3, 1).bool(), torch.zeros(3, 1))
    needed, blocks = attention_blocks(samples, torch.tensor([2]), 3)
    assert needed.tolist() == [2]
    assert [block.samples.tolist() for block in blocks] == [[[0]]] * 3


def test_no_nodes() -> None:
    needed, blocks = attention_blocks(CHAIN, torch.empty(0, dtype=torch.long), 2)
    assert needed.tolist() == []
    assert [len(block.samples) for block in blocks] == [0, 0]
