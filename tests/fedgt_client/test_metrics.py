"""Metrics: hand-computed, and where they are not defined."""

import math

import numpy as np
import pytest

from fedgt_client.metrics import calibration_error, intervals, measure, score

NAMES = ("no", "yes")
# Two of three negatives and one of two positives are found; one positive ranks above all.
PROBABILITIES = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.7, 0.3]])
LABELS = np.array([0, 0, 0, 1, 1])


def test_by_hand() -> None:
    found = measure(PROBABILITIES, LABELS, NAMES)
    assert found.nodes == 5
    assert found.majority_share == pytest.approx(3 / 5)
    assert found.accuracy == pytest.approx(3 / 5)
    assert found.balanced_accuracy == pytest.approx((2 / 3 + 1 / 2) / 2)
    # Of "no": precision 2/3, recall 2/3. Of "yes": precision 1/2, recall 1/2.
    assert found.macro_f1 == pytest.approx((2 / 3 + 1 / 2) / 2)
    # Of the six pairs of a positive and a negative, five are in the right order.
    assert found.roc_auc == pytest.approx(5 / 6)
    yes = found.classes[1]
    assert (yes.name, yes.nodes, yes.precision, yes.recall) == ("yes", 2, 0.5, 0.5)
    # Positives at ranks 1 and 3: precision 1 and 2/3, each half of the recall.
    assert yes.average_precision == pytest.approx((1 + 2 / 3) / 2)
    expected = -np.log([0.9, 0.8, 0.4, 0.7, 0.3]).mean()
    assert found.log_loss == pytest.approx(expected)


def test_a_threshold_changes_what_is_predicted_and_not_what_is_ranked() -> None:
    plain = measure(PROBABILITIES, LABELS, NAMES)
    all_found = measure(PROBABILITIES, LABELS, NAMES, (PROBABILITIES[:, 1] >= 0.3).astype(np.int64))
    assert all_found.classes[1].recall == 1.0
    assert all_found.classes[1].precision == pytest.approx(2 / 3)
    assert all_found.roc_auc == plain.roc_auc


def test_calibration_error_by_hand() -> None:
    # Two intervals: (0.5, 0.75] holds 0.6 right and 0.7 wrong; (0.75, 1] holds 0.9 right.
    probabilities = np.array([[0.6, 0.4], [0.7, 0.3], [0.1, 0.9]])
    labels = np.array([0, 1, 1])
    expected = (abs(1 - 1.3) + abs(1 - 0.9)) / 3
    assert calibration_error(probabilities, labels, bins=4) == pytest.approx(expected)


def test_a_sure_and_right_model_has_no_calibration_error() -> None:
    assert calibration_error(np.eye(3)[[0, 1, 2]], np.array([0, 1, 2])) == 0.0


def test_one_class_among_the_labels_leaves_ranking_undefined() -> None:
    found = measure(PROBABILITIES[:3], LABELS[:3], NAMES)
    assert found.roc_auc is None
    assert found.average_precision is None
    assert found.balanced_accuracy == pytest.approx(2 / 3)
    assert math.isnan(score("roc-auc", PROBABILITIES[:3], LABELS[:3]))


def test_a_class_that_does_not_occur_does_not_count() -> None:
    three = np.column_stack([PROBABILITIES, np.zeros(5)])
    found, plain = measure(three, LABELS, (*NAMES, "never")), measure(PROBABILITIES, LABELS, NAMES)
    assert found.roc_auc == plain.roc_auc
    assert found.classes[2].average_precision is None


@pytest.mark.parametrize(
    "name",
    [
        *("accuracy", "balanced-accuracy", "macro-f1", "roc-auc", "average-precision"),
        *("log-loss", "calibration-error"),
    ],
)
def test_one_metric_is_that_of_all(name: str) -> None:
    found = measure(PROBABILITIES, LABELS, NAMES)
    expected = getattr(found, name.replace("-", "_"))
    assert score(name, PROBABILITIES, LABELS) == pytest.approx(expected)
    assert math.isnan(score(name, np.empty((0, 2)), np.empty(0, np.int64)))


def test_intervals_hold_the_value_and_shrink_with_more_nodes() -> None:
    few = intervals(PROBABILITIES, LABELS, resamples=40)
    many = intervals(np.tile(PROBABILITIES, (20, 1)), np.tile(LABELS, 20), resamples=40)
    assert few["accuracy"][0] <= 0.6 <= few["accuracy"][1]
    assert many["accuracy"][1] - many["accuracy"][0] < few["accuracy"][1] - few["accuracy"][0]
    assert intervals(PROBABILITIES, LABELS, resamples=40) == few
