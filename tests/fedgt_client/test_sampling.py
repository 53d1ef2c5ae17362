"""Drawing without replacement."""

import numpy as np
import pytest
import torch

from fedgt_client.preprocess.top_k import Pool
from fedgt_client.sampling import Sampler, Samples

CPU = torch.device("cpu")


def pool(*rows: dict[int, float], size: int = 4) -> Pool:
    """Candidates and weights of each node, strongest first."""
    neighbours = np.full((len(rows), size), -1, np.int32)
    weights = np.zeros((len(rows), size), np.float32)
    for index, row in enumerate(rows):
        neighbours[index, : len(row)] = list(row)
        weights[index, : len(row)] = list(row.values())
    return neighbours, weights


FOUR = pool({1: 0.4, 2: 0.3, 3: 0.2}, {0: 0.5}, {}, {0: 0.4, 1: 0.3, 2: 0.2, 4: 0.1}, {3: 0.2})


def draw(sampler: Sampler, nodes: int = 5) -> Samples:
    """Draw for the first ``nodes`` nodes."""
    return sampler.draw(torch.arange(nodes))


def test_nobody_anywhere() -> None:
    sampler = Sampler(pool({}, {}), 3, CPU)
    assert not sampler.reachable
    samples = draw(sampler, 2)
    assert not samples.mask.any()
    assert samples.nodes.tolist() == [[0] * 3, [1] * 3]
    assert samples.log_weight.tolist() == [[0.0] * 3] * 2
    assert Sampler(FOUR, 3, CPU).reachable


def test_more_asked_for_than_a_pool_holds() -> None:
    samples = draw(Sampler(FOUR, 9, CPU))
    assert samples.nodes.shape == (5, 4)
    assert samples.mask.sum(dim=1).tolist() == [3, 1, 0, 4, 1]


def test_draws_are_valid() -> None:
    sampler = Sampler(FOUR, 2, CPU)
    allowed = [{1, 2, 3}, {0}, set(), {0, 1, 2, 4}, {3}]
    for _ in range(200):
        samples = draw(sampler)
        assert samples.mask.sum(dim=1).tolist() == [2, 1, 0, 2, 1]
        for node, choice in enumerate(allowed):
            drawn = samples.nodes[node][samples.mask[node]].tolist()
            assert set(drawn) <= choice
            assert len(set(drawn)) == len(drawn)
            assert node not in drawn
            # Masked places lead nowhere else.
            assert (samples.nodes[node][~samples.mask[node]] == node).all()
        assert (samples.log_weight[~samples.mask] == 0).all()
        assert torch.isfinite(samples.log_weight).all()


def test_log_weights_belong_to_the_drawn() -> None:
    samples = draw(Sampler(FOUR, 3, CPU))
    weights = {1: 0.4, 2: 0.3, 3: 0.2}
    for node, logarithm in zip(samples.nodes[0].tolist(), samples.log_weight[0], strict=True):
        assert float(logarithm.exp()) == pytest.approx(weights[node])


def test_frequencies_follow_the_weights() -> None:
    """The first draw of a row is each candidate with its share of the weight."""
    weights = np.array([0.4, 0.3, 0.2, 0.1])
    rows, repeats = 2000, 10
    sampler = Sampler(pool(*[dict(zip((1, 2, 3, 4), weights, strict=True))] * rows), 1, CPU)
    torch.manual_seed(1)
    drawn = torch.cat([draw(sampler, rows).nodes for _ in range(repeats)]).flatten().numpy()
    counts = np.bincount(drawn, minlength=5)[1:]
    expected = weights * rows * repeats
    # The 99.9 % quantile of chi-square with three degrees of freedom.
    assert ((counts - expected) ** 2 / expected).sum() < 16.27


def test_second_draw_is_without_the_first() -> None:
    """P({1, 2}) = p1 p2 / (1 − p1) + p2 p1 / (1 − p2), for weights 0.5, 0.3, 0.2."""
    sampler = Sampler(pool(*[{1: 0.5, 2: 0.3, 3: 0.2}] * 20000), 2, CPU)
    torch.manual_seed(2)
    pairs = draw(sampler, 20000).nodes.sort(dim=1).values
    share = float((pairs == torch.tensor([1, 2])).all(dim=1).float().mean())
    assert share == pytest.approx(0.15 / 0.5 + 0.15 / 0.7, abs=0.015)


def test_draws_differ_and_can_be_repeated() -> None:
    rows = [dict.fromkeys(range(1, 21), 1.0)] * 10
    sampler = Sampler(pool(*rows, size=20), 5, CPU)
    torch.manual_seed(3)
    first, second = draw(sampler, 10), draw(sampler, 10)
    assert first.nodes.tolist() != second.nodes.tolist()
    torch.manual_seed(3)
    assert draw(sampler, 10).nodes.tolist() == first.nodes.tolist()


def test_strongest_are_the_largest_weights() -> None:
    samples = Sampler(FOUR, 2, CPU).top_k(torch.arange(5))
    assert samples.nodes.tolist() == [[1, 2], [0, 1], [2, 2], [0, 1], [3, 4]]
    assert samples.mask.tolist() == [
        [True] * 2,
        [True, False],
        [False] * 2,
        [True] * 2,
        [True, False],
    ]
    assert samples.log_weight[0].exp().tolist() == pytest.approx([0.4, 0.3])
    assert Sampler(FOUR, 2, CPU).top_k(torch.arange(5)).nodes.tolist() == samples.nodes.tolist()


def test_tiny_weights_are_drawn_too() -> None:
    sampler = Sampler(pool({1: 1e-30, 2: 1e-37}), 2, CPU)
    assert draw(sampler, 1).mask.tolist() == [[True, True]]


def test_some_nodes_in_any_order() -> None:
    sampler, some = Sampler(FOUR, 9, CPU), torch.tensor([3, 0, 3])
    for samples in (sampler.draw(some), sampler.top_k(some)):
        found = [
            set(row[mask].tolist()) for row, mask in zip(samples.nodes, samples.mask, strict=True)
        ]
        assert found == [{0, 1, 2, 4}, {1, 2, 3}, {0, 1, 2, 4}]


def test_a_pool_that_cannot_be_written_to() -> None:
    neighbours, weights = FOUR[0].copy(), FOUR[1].copy()
    neighbours.flags.writeable = weights.flags.writeable = False
    samples = Sampler((neighbours, weights), 2, CPU).top_k(torch.arange(5))
    assert samples.nodes.tolist()[0] == [1, 2]
