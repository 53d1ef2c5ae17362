"""What rounding takes is sent later."""

import numpy as np
import pytest
from numpy.typing import NDArray

from fedgt_client.error_feedback import ErrorFeedback
from shared.precision import Precision
from shared.wire import GLOBAL_NODES, Arrays, Update


def change(number: int) -> Arrays:
    """Return a round's update: most values are far smaller than the largest of their block."""
    rng = np.random.default_rng(number)
    weight = 1e-5 * rng.standard_normal((2, 100))
    weight[0, 0] = 1.0
    return {"weight": weight.astype(np.float32)}


def total(updates: list[Arrays]) -> NDArray[np.float64]:
    weights = np.stack([update["weight"] for update in updates])
    return np.asarray(weights.sum(axis=0, dtype=np.float64))


def read(sent: Arrays, precision: Precision, packed: bytes | None = None) -> Arrays:
    """Return what the coordinator reads."""
    return Update.from_records(Update("a", sent, {}).to_records(precision, packed)).arrays


@pytest.mark.parametrize(("precision", "step"), [("int8", 1 / 127), ("float16", 2**-10)])
def test_sums_agree_up_to_one_rounding(precision: Precision, step: float) -> None:
    feedback = ErrorFeedback(precision, ["weight"])
    changes = [change(number // 100) for number in range(300)]
    sent = [feedback.apply(update).as_dict() for update in changes]
    assert np.abs(total(sent) - total(changes)).max() <= 0.51 * step


def test_without_feedback_what_is_too_small_is_never_sent() -> None:
    changes = [change(0)] * 300
    lowest = total(changes).argmin()
    assert total(changes).flat[lowest] < -0.6 / 127
    for names, expected in (([], 0.0), (["weight"], -1 / 127)):
        feedback = ErrorFeedback("int8", names)
        sent = [feedback.apply(update).as_dict() for update in changes]
        assert total(sent).flat[lowest] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("precision", ["float32", "float16", "int8"])
def test_the_coordinator_reads_exactly_what_is_returned(precision: Precision) -> None:
    feedback = ErrorFeedback(precision, ["weight"])
    for number in range(3):
        applied = feedback.apply(change(number) | {GLOBAL_NODES: np.ones((1, 2, 3), np.float32)})
        sent = applied.as_dict()
        for packed in (None, applied.packed(precision)):  # encoded again, or as it is
            found = read(sent, precision, packed)
            assert found.keys() == sent.keys()
            for name, array in sent.items():
                assert found[name].tobytes() == array.tobytes()


def test_full_precision_needs_no_feedback() -> None:
    feedback = ErrorFeedback("float32", ["weight"])
    update = change(1)
    assert feedback.apply(update).as_dict() == update
    assert feedback.state_dict() == {}


def test_only_parameters_have_feedback() -> None:
    feedback = ErrorFeedback("int8", ["weight"])
    nodes = np.full((1, 2, 3), 1 / 3, np.float32)
    first = feedback.apply(change(1) | {GLOBAL_NODES: nodes}).as_dict()
    assert feedback.state_dict().keys() == {"residual.weight"}
    second = feedback.apply(change(1) | {GLOBAL_NODES: nodes}).as_dict()
    assert first[GLOBAL_NODES].tobytes() == second[GLOBAL_NODES].tobytes()
    assert first["weight"].tobytes() != second["weight"].tobytes()


def test_state_continues_exactly() -> None:
    straight, restarted = ErrorFeedback("int8", ["weight"]), ErrorFeedback("int8", ["weight"])
    straight.apply(change(1))
    restarted.apply(change(9))
    restarted.load_state_dict({"model.weight": np.ones(2), **straight.state_dict()})
    assert straight.apply(change(2)).as_dict()["weight"].tobytes() == (
        restarted.apply(change(2)).as_dict()["weight"].tobytes()
    )
    # Another run, or a round without a state before it, starts without.
    restarted.load_state_dict({})
    assert restarted.state_dict() == {}


def test_values_that_are_not_finite_do_not_stay() -> None:
    feedback = ErrorFeedback("int8", ["weight"])
    spoilt = change(1)
    spoilt["weight"][0, 3] = np.inf
    assert feedback.apply(spoilt).as_dict()["weight"].tobytes() == spoilt["weight"].tobytes()
    assert feedback.state_dict() == {}
    assert np.isfinite(feedback.apply(change(2)).as_dict()["weight"]).all()
