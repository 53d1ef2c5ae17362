"""Confusion, reliability and thresholds, by hand."""

import numpy as np
import pytest

from fedgt_client.report.judged import confusion, reliability, threshold_curve


def test_rows_are_true_classes() -> None:
    labels = np.array([0, 0, 1, 2, 2])
    predicted = np.array([0, 1, 1, 0, 2])
    assert confusion(predicted, labels, 3) == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]


def test_a_class_that_nobody_has_is_a_row_of_zeros() -> None:
    assert confusion(np.array([1]), np.array([1]), 3)[2] == [0, 0, 0]


def test_reliability_is_by_bins_of_confidence() -> None:
    probabilities = np.array([[0.62, 0.38], [0.66, 0.34], [0.05, 0.95], [1.0, 0.0]])
    found = reliability(probabilities, np.array([0, 1, 1, 0]))
    assert found.confidence == [0.64, 0.975]
    assert found.right == [0.5, 1.0]
    assert found.nodes == [2, 2]


def test_a_threshold_trades_recall_for_precision() -> None:
    probability = np.array([0.9, 0.6, 0.3, 0.1])
    curve = threshold_curve(probability, np.array([True, False, True, False]), "high", 0.3)
    at = {round(t, 2): k for k, t in enumerate(curve.thresholds)}
    assert (curve.precision[at[0.0]], curve.recall[at[0.0]], curve.alarms[at[0.0]]) == (0.5, 1, 1)
    assert (curve.precision[at[0.7]], curve.recall[at[0.7]], curve.alarms[at[0.7]]) == (
        1,
        0.5,
        0.25,
    )
    assert (curve.precision[at[1.0]], curve.recall[at[1.0]], curve.alarms[at[1.0]]) == (None, 0, 0)
    assert curve.share == pytest.approx(0.5)


def test_without_positive_nodes_there_is_no_recall() -> None:
    curve = threshold_curve(np.array([0.9, 0.1]), np.array([False, False]), "high", None)
    assert set(curve.recall) == {None}
