"""Neighbourhood expansion."""

import torch

from fedgt_client.model.blocks import AttentionBlock, attention_blocks
from fedgt_client.sampling import Samples

# A chain: node i attends to i + 1, the last to no node. Node 0 is not sampled by any node.
CHAIN = Samples(
    nodes=torch.tensor([[1, 0], [2, 1], [3, 2], [4, 3], [4, 4]]),
    mask=torch.tensor([[1, 0], [1, 0], [1, 0], [1, 0], [0, 0]]).bool(),
    log_weight=torch.tensor([[0.1, 0], [0.2, 0], [0.3, 0], [0.4, 0], [0, 0]]),
)


def chain(nodes: torch.Tensor) -> Samples:
    return samples_of(CHAIN, nodes)


def samples_of(whole: Samples, nodes: torch.Tensor) -> Samples:
    return Samples(whole.nodes[nodes], whole.mask[nodes], whole.log_weight[nodes])


def test_what_is_needed_and_no_more() -> None:
    needed, blocks = attention_blocks(chain, torch.tensor([1]), 5, 2)
    assert needed.tolist() == [1, 2, 3]
    first, second = blocks
    # The first layer computes nodes 1 and 2 from 1, 2 and 3, the second node 1 from these.
    assert needed[first.positions].tolist() == [1, 2]
    assert needed[first.samples[first.mask]].tolist() == [2, 3]
    assert needed[first.positions][second.positions].tolist() == [1]
    assert needed[first.positions][second.samples[second.mask]].tolist() == [2]
    assert second.log_weight[0, 0] == 0.2


def test_order_is_kept_and_overlap_is_not_repeated() -> None:
    needed, blocks = attention_blocks(chain, torch.tensor([3, 2, 0]), 5, 1)
    assert needed.tolist() == [3, 2, 0, 1, 4]
    assert blocks[0].samples[blocks[0].mask].tolist() == [4, 0, 3]
    # Masked places stay within the input.
    assert int(blocks[0].samples.max()) < len(needed)


def test_masked_samples_bring_nobody() -> None:
    alone = Samples(torch.tensor([[0], [1], [2]]), torch.zeros(3, 1).bool(), torch.zeros(3, 1))
    needed, blocks = attention_blocks(
        lambda nodes: samples_of(alone, nodes), torch.tensor([2]), 3, 3
    )
    assert needed.tolist() == [2]
    assert [block.samples.tolist() for block in blocks] == [[[0]]] * 3


def test_no_nodes() -> None:
    needed, blocks = attention_blocks(chain, torch.empty(0, dtype=torch.long), 5, 2)
    assert needed.tolist() == []
    assert [len(block.samples) for block in blocks] == [0, 0]


def test_rows_of_queries() -> None:
    rows, one = torch.arange(4.0)[:, None], torch.zeros(2, 1)
    first = AttentionBlock(None, one.long(), one.bool(), one)
    assert first.positions.tolist() == [0, 1]
    assert first.of_queries(rows).tolist() == [[0.0], [1.0]]
    chosen = AttentionBlock(torch.tensor([3, 1]), one.long(), one.bool(), one)
    assert chosen.positions.tolist() == [3, 1]
    assert chosen.of_queries(rows).tolist() == [[3.0], [1.0]]
