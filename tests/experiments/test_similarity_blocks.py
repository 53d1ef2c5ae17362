"""The number of a heatmap: hand-computed, and 0 where nothing shows."""

import numpy as np
import pytest

from experiments.job import Job
from experiments.similarity_blocks import contrast, heatmaps, label_similarity
from fedgt_server.aggregation import softmax_weights


def test_by_hand() -> None:
    matrix = [
        [1.0, 0.8, 0.1, 0.1],
        [0.8, 1.0, 0.1, 0.3],
        [0.1, 0.1, 1.0, 0.6],
        [0.1, 0.3, 0.6, 1.0],
    ]
    found = contrast(matrix, 2)
    assert found.within == pytest.approx(0.7)  # the diagonal does not count
    assert found.between == pytest.approx(0.15)
    assert found.difference == pytest.approx(0.55)
    assert found.relative == pytest.approx(0.55 / found.spread)


def test_all_alike_shows_nothing() -> None:
    found = contrast(np.ones((10, 10)))
    assert found.difference == 0.0
    assert found.relative == 0.0


def test_blurred_is_less() -> None:
    rng = np.random.default_rng(0)
    blocks = np.kron(np.eye(4), np.ones((5, 5)))
    noise = rng.normal(size=(20, 20))
    noisy = blocks + noise + noise.T
    assert contrast(noisy).relative < contrast(blocks).relative


def test_scale_does_not_change_the_relative_one() -> None:
    matrix = np.random.default_rng(1).random((10, 10))
    assert contrast(3 * matrix + 1).relative == pytest.approx(contrast(matrix).relative)


def test_label_similarity_by_hand() -> None:
    found = label_similarity([[3, 4], [4, 3], [0, 0]])
    assert found[0, 1] == pytest.approx(0.96)
    assert found[2].tolist() == [0.0, 0.0, 0.0]


def test_a_heatmap_shows_weights_and_the_early_round_of_updates() -> None:
    early, late = [[1.0, 0.2], [0.2, 1.0]], [[1.0, 0.6], [0.6, 1.0]]
    record = {"similarity": {"matrices": {"100": late, "30": early}}, "config": {"tau": 2.0}}
    records = {
        Job.of("cora", "overlap", 20, name, seed): record
        for name in ("fedgt", "fedgt-update")
        for seed in (0, 1)
    }
    by_label = {heatmap.label: heatmap for heatmap in heatmaps(records)}
    assert not by_label["label distributions"].shown
    for label, matrix in (("FedGT", late), ("local updates, round 30", early)):
        assert len(by_label[label].shown) == 2
        np.testing.assert_array_equal(by_label[label].similarity[1], matrix)
        np.testing.assert_allclose(by_label[label].shown[1], softmax_weights(np.array(matrix), 2.0))
