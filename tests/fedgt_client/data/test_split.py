from dataclasses import replace

import numpy as np
import pytest

from fedgt_client.data.split import random_split, split_graph, split_ratios
from shared.errors import FedGTError
from tests.fedgt_client.small_graphs import small_graph


@pytest.mark.parametrize(
    "ratios",
    [(0.2, 0.4, 0.3), (0.2, 0.4, 0.5), (-0.2, 0.6, 0.6), (float("nan"), 0.5, 0.5), (0.5, 0.5)],
)
def test_invalid_ratios(ratios: tuple[float, float, float]) -> None:
    with pytest.raises(FedGTError, match="split ratios"):
        random_split(10, ratios, 0)


def test_negative_numbers() -> None:
    with pytest.raises(FedGTError, match="num_nodes is -1"):
        random_split(-1, (0.2, 0.4, 0.4), 0)
    with pytest.raises(FedGTError, match="seed is -1"):
        random_split(10, (0.2, 0.4, 0.4), -1)


@pytest.mark.parametrize(
    ("nodes", "ratios", "sizes"),
    [
        (1000, (0.2, 0.4, 0.4), [200, 400, 400]),
        (2485, (0.2, 0.4, 0.4), [497, 994, 994]),
        (1000, (0.6, 0.2, 0.2), [600, 200, 200]),
        (1000, (0.05, 0.475, 0.475), [50, 475, 475]),
        (3, (1.0, 0.0, 0.0), [3, 0, 0]),
        (0, (0.2, 0.4, 0.4), [0, 0, 0]),
    ],
)
def test_exact_sizes(nodes: int, ratios: tuple[float, float, float], sizes: list[int]) -> None:
    masks = random_split(nodes, ratios, seed=7)
    assert [int(mask.sum()) for mask in masks] == sizes


def test_every_node_is_in_one_part() -> None:
    masks = np.stack(random_split(101, (0.2, 0.4, 0.4), seed=0))
    assert (masks.sum(axis=0) == 1).all()


def test_seed_decides() -> None:
    first, again, other = (random_split(100, (0.2, 0.4, 0.4), seed)[0] for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_unlabelled_nodes_are_in_no_part() -> None:
    graph = small_graph(20, [(0, 1)], [0, -1] * 10)
    split = split_graph(graph, (0.2, 0.4, 0.4), seed=0)
    assert [int(mask.sum()) for mask in (split.train, split.val, split.test)] == [2, 4, 4]
    assert not (split.train | split.val | split.test)[1::2].any()


def test_only_the_masks_change() -> None:
    graph = small_graph(10, [(0, 1)])
    split = split_graph(graph, (0.2, 0.4, 0.4), seed=0)
    assert replace(split, train=graph.train, val=graph.val, test=graph.test).digest() == (
        graph.digest()
    )


def test_ratios_of_the_paper() -> None:
    assert split_ratios("cora", "disjoint") == (0.2, 0.4, 0.4)
    assert split_ratios("cora", "overlap") == (0.2, 0.4, 0.4)
    assert split_ratios("cora", "louvain") == (0.6, 0.2, 0.2)
    assert split_ratios("ogbn-arxiv", "disjoint") == (0.05, 0.475, 0.475)
