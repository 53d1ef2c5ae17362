"""The best round, by the metric that the run names."""

import math

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message

from fedgt_server.best_round import BestRoundChoice, at_best_round
from fedgt_server.checkpoint import BestRound
from fedgt_server.events import RoundEvent, bounded_value, trimmed_value
from fedgt_server.strategy import FedGTStrategy
from shared.config import Scalar
from shared.wire import GLOBAL_NODES, Update
from tests.fedgt_server.events import institution_round
from tests.fedgt_server.grid import INITIAL, Node, ScriptedGrid, settings

pytestmark = pytest.mark.usefixtures("quick")

# Of three rounds: accuracy is best in the first, macro-F1 in the second, log loss in the third.
METRICS = {
    1: {
        "val_accuracy": 0.9,
        "val_macro_f1": 0.3,
        "val_log_loss": 2.0,
        "val_calibration_error": 0.3,
    },
    2: {
        "val_accuracy": 0.8,
        "val_macro_f1": 0.7,
        "val_log_loss": 1.0,
        "val_calibration_error": 0.1,
    },
    3: {
        "val_accuracy": 0.7,
        "val_macro_f1": 0.6,
        "val_log_loss": 0.5,
        "val_calibration_error": 0.2,
    },
}


def best_rounds(select_by: str, metrics: dict[int, dict[str, float]]) -> list[int]:
    """Play all rounds; return the best after each of them."""
    strategy = FedGTStrategy(settings(select_by=select_by))
    grid = ScriptedGrid(Node("a"), Node("b"))
    strategy.introduce(grid)
    found = []
    for number, measured in metrics.items():
        messages = strategy.configure_train(number, ArrayRecord(), ConfigRecord(), grid)
        replies = [reply(message, measured) for message in messages]
        strategy.aggregate_train(number, replies)
        assert strategy.last_round is not None
        found.append(strategy.last_round.best_round)
    return found


def reply(message: Message, metrics: dict[str, float]) -> Message:
    arrays = {name: np.zeros_like(array) for name, array in INITIAL.items()}
    arrays[GLOBAL_NODES] = np.ones((2, 2, 4), np.float32)
    return Message(Update("any", arrays, metrics).to_records(), reply_to=message)


@pytest.mark.parametrize(
    ("select_by", "expected"),
    [
        ("accuracy", [1, 1, 1]),
        ("macro-f1", [1, 2, 2]),
        ("log-loss", [1, 2, 3]),
        ("calibration-error", [1, 2, 2]),
    ],
)
def test_best_round(select_by: str, expected: list[int]) -> None:
    assert best_rounds(select_by, METRICS) == expected


def test_rounds_without_the_metric_are_never_better() -> None:
    missing = METRICS | {2: METRICS[2] | {"val_macro_f1": math.nan}}
    assert best_rounds("macro-f1", missing) == [1, 1, 3]
    assert best_rounds("roc-auc", METRICS) == [1, 2, 3]  # nobody measures it: the last


# --- institutions that lie ----------------------------------------------------------------------

# What honest institutions measure in three rounds: the second is the best for all of them.
HONEST: dict[int, float | None] = {1: 0.5, 2: 0.8, 3: 0.7}


def kept_round(reported: list[dict[int, float | None]], **changed: Scalar) -> int:
    """Play all rounds with an institution for each entry; return the best after the last."""
    strategy = FedGTStrategy(settings(**changed))
    grid = ScriptedGrid(*(Node(f"n{index}") for index in range(len(reported))))
    strategy.introduce(grid)
    for number in HONEST:
        replies = []
        for message in strategy.configure_train(number, ArrayRecord(), ConfigRecord(), grid):
            accuracy = reported[message.metadata.dst_node_id - 1][number]
            replies.append(reply(message, {} if accuracy is None else {"val_accuracy": accuracy}))
        strategy.aggregate_train(number, replies)
    assert strategy.best is not None
    return strategy.best.number


LIES: list[dict[int, float | None]] = [
    {1: 1e308, 2: 0.8, 3: 0.7},
    {1: 1.0, 2: 0.0, 3: 0.0},
    {1: 0.0, 2: 0.0, 3: 1.0},
    {1: None, 2: None, 3: 1.0},
]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize(("honest", "liars"), [(2, 1), (3, 1), (4, 1), (4, 2), (7, 3)])
def test_liars_do_not_choose_the_round(
    honest: int, liars: int, lie: dict[int, float | None]
) -> None:
    reported: list[dict[int, float | None]] = [*[HONEST] * honest, *[lie] * liars]
    assert kept_round(reported) == 2


def test_without_robust_a_liar_chooses_the_round() -> None:
    reported: list[dict[int, float | None]] = [*[HONEST] * 2, {1: 1.0, 2: 0.0, 3: 0.0}]
    assert kept_round(reported, robust=False) == 1


def test_trimmed_mean() -> None:
    assert trimmed_value([]) is None
    assert trimmed_value([0.25]) == 0.25
    assert trimmed_value([0.25, 0.75]) == 0.5
    assert trimmed_value([0.0, 0.25, 1.0]) == 0.25
    assert trimmed_value([1.0, 0.5, 0.0, 0.25]) == 0.375
    assert trimmed_value([0.0, 0.0, 0.25, 0.75, 1.0, 1.0]) == 0.5


def test_the_largest_third_of_gains_count_for_no_more_than_the_next() -> None:
    assert bounded_value([]) is None
    assert bounded_value([0.25]) == 0.25
    assert bounded_value([0.25, -0.75]) == -0.25  # nobody can tell which is wrong
    assert bounded_value([0.25, 0.5, -1.0]) == pytest.approx(0.25 / 3)
    assert bounded_value([0.125, 0.125, 0.125, 0.125, -1.0, -1.0]) == pytest.approx(0.25 / 6)
    assert bounded_value([0.0, 0.0, 1.0]) == 0.0
    # Most are as well off as before, in steps of their accuracies: those that are not decide.
    assert bounded_value([0.0, 0.0, 0.0, 0.0, 0.05, 0.05, 0.15]) == pytest.approx(0.15 / 7)
    assert bounded_value([0.0, 0.0, 0.0, 0.0, -0.05, -0.05, 1.0]) == pytest.approx(-0.05 / 7)


@pytest.mark.parametrize(("robust", "best"), [(True, 3), (False, 2)])
def test_of_equal_rounds_the_last_is_chosen_where_accuracies_may_be_rounded(
    robust: bool, best: int
) -> None:
    choice = BestRoundChoice("val_accuracy", smaller_is_better=False, robust=robust)
    for number, values in enumerate([(0.6, 0.7, 0.8), (0.7, 0.8, 0.8), (0.8, 0.7, 0.8)], 1):
        parts = {n: institution_round(val_accuracy=v) for n, v in zip("abc", values, strict=True)}
        found = choice.add(number, parts)
    assert found.number == best


def test_a_loss_that_is_bounded_to_nothing_is_not_taken_again_and_again() -> None:
    choice = BestRoundChoice("val_accuracy", smaller_is_better=False, robust=True)
    for number in range(1, 6):  # one of three becomes worse, the others stay
        values = {"a": 0.8, "b": 0.8, "c": 0.8 - 0.1 * number}
        found = choice.add(
            number, {n: institution_round(val_accuracy=v) for n, v in values.items()}
        )
    assert found.number == 1


def test_many_small_losses_are_not_outweighed_by_a_large_gain() -> None:
    before = {**{name: [0.8, 0.75] for name in "abcde"}, "f": [0.1, 0.9]}
    choice = BestRoundChoice("val_accuracy", smaller_is_better=False, robust=True)
    for number in (1, 2):
        parts = {n: institution_round(val_accuracy=v[number - 1]) for n, v in before.items()}
        best = choice.add(number, parts)
    assert best.number == 1


# --- institutions that leave, miss rounds, or join late -------------------------------------------


def play(accuracies: dict[str, list[float | None]], **changed: Scalar) -> list[RoundEvent]:
    """Play rounds in which institutions measure these accuracies; None: it does not answer."""
    strategy = FedGTStrategy(settings(min_institutions=1, **changed))
    grid = ScriptedGrid(*map(Node, accuracies))
    strategy.introduce(grid)
    names, found = list(accuracies), []
    for number in range(1, len(accuracies[names[0]]) + 1):
        replies = []
        for message in strategy.configure_train(number, ArrayRecord(), ConfigRecord(), grid):
            value = accuracies[names[message.metadata.dst_node_id - 1]][number - 1]
            if value is not None:
                replies.append(reply(message, {"val_accuracy": value, "test_accuracy": value}))
        strategy.aggregate_train(number, replies)
        assert strategy.last_round is not None
        found.append(strategy.last_round)
    return found


def test_who_leaves_early_does_not_make_the_result_better() -> None:
    """The weakest leaves after the first round, and the others get worse."""
    rounds = play({"a": [0.8, 0.7, 0.7, 0.75], "b": [0.8, 0.7, 0.7, 0.75], "c": [0.2, *[None] * 3]})
    assert rounds[-1].best_round == 1
    measured, missing = at_best_round(rounds)
    assert {name: at.metrics["test_accuracy"] for name, at in measured.items()} == {
        "a": 0.8,
        "b": 0.8,
    }
    assert missing == {"c": "took part in 1 of 4 rounds, the last is 1"}


def test_who_took_part_in_half_the_rounds_counts_to_the_end() -> None:
    rounds = play(
        {"a": [0.5, 0.6, 0.5, 0.5], "b": [0.5, 0.6, 0.5, 0.5], "c": [0.2, 0.3, None, None]}
    )
    measured, missing = at_best_round(rounds)
    assert (rounds[-1].best_round, sorted(measured), missing) == (2, ["a", "b", "c"], {})


def test_who_misses_the_best_round_counts_with_its_last() -> None:
    rounds = play(
        {"a": [0.5, 0.5, 0.9, 0.5], "b": [0.5, 0.5, 0.9, 0.5], "c": [0.2, 0.4, None, 0.3]}
    )
    measured, missing = at_best_round(rounds)
    assert (rounds[-1].best_round, missing) == (3, {})
    assert measured["c"].metrics["test_accuracy"] == 0.4


def test_a_late_institution_gets_a_round_to_keep() -> None:
    """From half of the rounds on, the best round is one that it has a model of."""
    late = play({"a": [0.9, 0.5, 0.5, 0.6], "b": [None, None, 0.4, 0.5]})
    assert [event.best_round for event in late] == [1, 1, 1, 4]
    assert sorted(at_best_round(late)[0]) == ["a", "b"]


def test_one_that_never_answers_is_named() -> None:
    assert at_best_round(play({"a": [0.5], "b": [None]}))[1] == {"b": "took part in 0 of 1 rounds"}


def test_a_checkpoint_without_standings_keeps_its_best_round() -> None:
    choice = BestRoundChoice("val_accuracy", smaller_is_better=False, robust=True)
    choice.best = BestRound(7, 0.8, ("a", "b"))
    parts = {name: institution_round(val_accuracy=0.7) for name in ("a", "b")}
    assert choice.add(9, parts).number == 7
    assert choice.round_of("a") == 7
    better = {name: institution_round(val_accuracy=0.9) for name in ("a", "b")}
    assert choice.add(10, better).number == 10
