"""Temperature and threshold, on numbers that can be checked by hand."""

import numpy as np
import pytest

from fedgt_client.metrics import calibration_error
from fedgt_client.predict.calibration import (
    Calibration,
    Threshold,
    choose_threshold,
    fit_temperature,
    softmax,
    threshold_for_cost,
    threshold_for_recall,
    weight_offsets,
)
from shared.errors import FedGTError

PROBABILITY = np.array([0.9, 0.8, 0.7, 0.6, 0.2, 0.1])
POSITIVE = np.array([True, False, True, False, True, False])


def drawn(nodes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return scores whose softmax is the true probability, and labels drawn by it."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(0.0, 1.5, (nodes, 3))
    labels = np.array([rng.choice(3, p=row) for row in softmax(scores)])
    return scores, labels


@pytest.mark.parametrize("recall", [-0.1, 0.0, 1.1, float("nan")])
def test_a_recall_out_of_range(recall: float) -> None:
    with pytest.raises(FedGTError, match="the wanted recall is"):
        choose(rule="recall", wanted=recall)


@pytest.mark.parametrize("ratio", [-1.0, 0.0, float("inf")])
def test_a_cost_ratio_out_of_range(ratio: float) -> None:
    with pytest.raises(FedGTError, match="the cost ratio is"):
        choose(rule="cost-ratio", wanted=ratio)


def test_an_unknown_positive_class_and_more_than_two_classes() -> None:
    with pytest.raises(FedGTError, match="the positive class is 'maybe', expected one of: no, yes"):
        choose(positive="maybe")
    with pytest.raises(FedGTError, match="needs two classes, there are 3"):
        choose(names=("a", "b", "c"))


def test_no_positive_node_in_validation() -> None:
    for chosen in (threshold_for_recall, threshold_for_cost):
        with pytest.raises(FedGTError, match="no validation node is of the positive class"):
            chosen(PROBABILITY, np.zeros(6, np.bool_), 0.5)


def choose(
    rule: str = "recall",
    wanted: float = 0.5,
    positive: str = "yes",
    names: tuple[str, ...] = ("no", "yes"),
) -> Threshold:
    probabilities = np.column_stack([1 - PROBABILITY, PROBABILITY])
    return choose_threshold(
        probabilities,
        POSITIVE.astype(np.int64),
        names,
        positive=positive,
        rule=rule,  # type: ignore[arg-type]
        wanted=wanted,
    )


@pytest.mark.parametrize(("recall", "expected"), [(0.3, 0.9), (0.5, 0.7), (0.67, 0.2), (1.0, 0.2)])
def test_threshold_for_recall_by_hand(recall: float, expected: float) -> None:
    assert threshold_for_recall(PROBABILITY, POSITIVE, recall) == expected
    assert (PROBABILITY[POSITIVE] >= expected).mean() >= recall


def test_threshold_for_cost_by_hand() -> None:
    # Alarms at 0.9: two missed. Down to 0.7: one missed, one false. Down to 0.2: two false.
    assert threshold_for_cost(PROBABILITY, POSITIVE, 0.9) == 0.9
    assert threshold_for_cost(PROBABILITY, POSITIVE, 1.0) == 0.9  # all three cost the same
    assert threshold_for_cost(PROBABILITY, POSITIVE, 1.1) == 0.2
    # The one positive node ranks last of three: an alarm for all costs more than missing it.
    assert threshold_for_cost(np.array([0.9, 0.8, 0.1]), np.array([False, False, True]), 1.0) == 1.0


def test_equal_probabilities_raise_the_alarm_together() -> None:
    probability, positive = np.array([0.5, 0.5, 0.5, 0.1]), np.array([True, False, False, False])
    # Two false alarms come with the one found: worth it only where a missed one costs more.
    assert threshold_for_cost(probability, positive, 1.5) == 1.0
    assert threshold_for_cost(probability, positive, 2.5) == 0.5


def test_the_threshold_decides_for_either_class() -> None:
    scores = np.log(np.column_stack([1 - PROBABILITY, PROBABILITY]))
    for positive, expected in (("yes", PROBABILITY >= 0.65), ("no", 1 - PROBABILITY < 0.65)):
        threshold = Threshold(positive=positive, value=0.65, rule="recall", wanted=0.5)
        found = Calibration(threshold=threshold).predict(scores, ("no", "yes"))
        assert found.tolist() == expected.astype(int).tolist()


def test_temperature_of_scores_that_are_right() -> None:
    scores, labels = drawn(20_000)
    assert fit_temperature(scores, labels) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("factor", [0.25, 4.0])
def test_temperature_undoes_a_factor(factor: float) -> None:
    scores, labels = drawn(20_000)
    assert fit_temperature(scores * factor, labels) == pytest.approx(factor, rel=0.03)


def test_calibration_halves_the_error_of_a_model_too_sure_and_changes_no_prediction() -> None:
    scores, labels = drawn(4_000)
    scores = scores * 3
    temperature = fit_temperature(scores[:2_000], labels[:2_000])
    before = calibration_error(softmax(scores[2_000:]), labels[2_000:])
    after = calibration_error(softmax(scores[2_000:], temperature), labels[2_000:])
    assert before > 0.05
    assert after < before / 2
    calibrated = Calibration(temperature=temperature)
    assert (calibrated.predict(scores, ("a", "b", "c")) == scores.argmax(axis=1)).all()


def test_few_nodes_hardly_move_the_temperature() -> None:
    assert fit_temperature(np.empty((0, 2)), np.empty(0, np.int64)) == 1.0
    # All right, or all wrong: no temperature is best, and two nodes do not prove one.
    scores = np.array([[2.0, 0.0], [3.0, 0.0]])
    assert 0.8 < fit_temperature(scores, np.array([0, 0])) < 1.0
    assert 1.0 < fit_temperature(scores, np.array([1, 1])) < 2.0
    many = np.tile(scores, (5_000, 1))
    assert fit_temperature(many, np.zeros(10_000, np.int64)) < 0.4
    assert fit_temperature(many, np.ones(10_000, np.int64)) == 20.0


def test_class_weights_are_taken_out_of_probabilities_and_not_of_predictions() -> None:
    # 1 of 10 training nodes is of class b, and 0 of class c: balanced weights are 5 / 9, 5, 0.
    offsets = weight_offsets((9, 1, 0))
    assert offsets[1] - offsets[0] == pytest.approx(np.log(9))
    assert offsets[2] == 0.0
    scores = np.log([[0.5, 0.5]])  # what weights make of a node with probabilities 0.9 and 0.1
    calibration = Calibration(offsets=weight_offsets((9, 1)))
    assert calibration.probabilities(scores)[0] == pytest.approx([0.9, 0.1])
    unsure = np.log([[0.4, 0.6]])
    assert calibration.probabilities(unsure)[0, 1] < 0.5
    assert calibration.predict(unsure, ("a", "b")).tolist() == [1]
