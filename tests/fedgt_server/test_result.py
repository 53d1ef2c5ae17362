"""A run's result, as the paper reports it."""

import json
from pathlib import Path

import pytest
from pydantic import JsonValue

from fedgt_server.events import Accuracies, PrivacySpent, majority_warning, sharing_notes
from fedgt_server.journal import Journal
from fedgt_server.result import Result, read_result, summarise, write_result
from fedgt_server.round_loop import RoundLoop
from fedgt_server.strategy import FedGTStrategy
from shared.config import RunConfig
from shared.errors import FedGTError
from tests.fedgt_server.events import institution_round, round_event
from tests.fedgt_server.grid import Node, ScriptedGrid, settings


def finished(folder: Path) -> Result:
    """Return the result of a run of three rounds, of which the second was the best."""
    journal = Journal(folder / "journal.jsonl")
    for number, best in ((1, 1), (2, 2), (3, 2)):
        uploads: dict[str, JsonValue] = {"weights": 8}
        if number > 1:
            uploads["global_nodes"] = number
        facts: dict[str, JsonValue] = {
            "uploads": uploads,
            "epsilon_coordinate": 4.0,
            "epsilon_coordinate_total": 8.0,
            "epsilon_private": 1.0,
            "epsilon_total": 100.0 * number,
        }
        parts = {
            "b": institution_round(val_accuracy=0.4, **facts),
            "a": institution_round(
                test_accuracy=0.5, **facts | {"epsilon_private": float(number < 3)}
            ),
        }
        journal.write(
            round_event(
                number,
                parts,
                best_round=best,
                val_accuracy=number / 10,
                test_accuracy=number / 5,
                similarity_spread=0.1 * number,
            )
        )
    return summarise(journal, RunConfig.build())


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"method": "fedgt"}'])
def test_what_is_no_result_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "result.json").write_text(text)
    with pytest.raises(FedGTError, match=r"result\.json is not a run's result") as error:
        read_result(tmp_path)
    assert "\n" not in str(error.value)


def test_no_file_is_no_result(tmp_path: Path) -> None:
    assert read_result(tmp_path) is None


def test_a_field_of_the_wrong_type_is_named(tmp_path: Path) -> None:
    document = finished(tmp_path).model_dump() | {"best_round": "last"}
    (tmp_path / "result.json").write_text(json.dumps(document))
    with pytest.raises(FedGTError, match="best_round"):
        read_result(tmp_path)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"a": 0.5, "b": 0.0}, []),
        ({"a": 1.0, "b": 0.5}, ["alone is better for a, which predicts by its own model"]),
        (
            {"a": 1.0, "b": 1.0},
            ["alone is better for a, b, which each predict by a model of their own"],
        ),
    ],
)
def test_who_is_better_alone(tmp_path: Path, weights: dict[str, float], said: list[str]) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    parts = {name: institution_round(own_weight=weight) for name, weight in weights.items()}
    journal.write(round_event(1, parts))
    warnings = summarise(journal, RunConfig.build()).warnings
    assert [warning for warning in warnings if "alone" in warning] == said


def test_measured_at_the_best_round(tmp_path: Path) -> None:
    result = finished(tmp_path)
    assert (result.best_round, result.rounds) == (2, 3)
    assert (result.val_accuracy, result.test_accuracy) == (0.4, 0.5)
    assert list(result.per_client) == ["a", "b"]
    assert result.per_client["a"] == Accuracies(val_accuracy=None, test_accuracy=0.5)
    assert (result.bytes_up, result.bytes_down, result.seconds) == (60, 120, 4.5)
    assert result.uploads == {"global_nodes": 10, "weights": 48}
    assert result.similarity_spread == pytest.approx([0.1, 0.2, 0.3])
    assert result.privacy == PrivacySpent(
        epsilon_coordinate=4.0, epsilon_coordinate_total=8.0, epsilon_total=300.0, private=False
    )


def test_written_and_read_it_is_the_same(tmp_path: Path) -> None:
    result = finished(tmp_path)
    write_result(tmp_path, result)
    assert read_result(tmp_path) == result
    assert json.loads((tmp_path / "result.json").read_text()) == result.model_dump()


def test_without_noise_and_without_measures(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write(round_event(1, {"a": institution_round()}, val_accuracy=None, test_accuracy=None))
    result = summarise(journal, RunConfig.build())
    assert result.privacy is None
    assert result.uploads == {}
    assert result.similarity_spread == [None]
    assert result.test_accuracy is None


def test_an_incomplete_privacy_report_is_not_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.write(round_event(1, {"a": institution_round(epsilon_total=3.0)}))
    assert summarise(journal, RunConfig.build()).privacy is None


def test_nobody_is_above_the_largest_class(tmp_path: Path) -> None:
    grid = ScriptedGrid(Node("a", share=0.5), Node("b", share=0.6))
    strategy = FedGTStrategy(settings(rounds=1))
    result = RoundLoop(grid, strategy, tmp_path / "low").run()
    assert [warning.partition(":")[0] for warning in result.warnings] == [
        "no institution's test accuracy is above the share of its largest class"
    ]
    assert result.test_majority_share == pytest.approx(0.55)
    assert result.per_client["b"].test_majority_share == 0.6

    grid = ScriptedGrid(Node("a", share=0.4), Node("b"))  # b keeps its share to itself
    better = RoundLoop(grid, FedGTStrategy(settings(rounds=1)), tmp_path / "better").run()
    assert better.warnings == []
    assert better.per_client["b"].test_majority_share is None


def test_class_weights_may_cost_accuracy() -> None:
    shares = {"test_accuracy": 0.7, "test_majority_share": 0.94}
    for recall, warned in ((0.5, True), (0.71, False)):
        found = majority_warning({"a": institution_round(**shares, test_balanced_accuracy=recall)})
        assert (found is not None) == warned
    one_class = dict.fromkeys(
        ["test_accuracy", "test_majority_share", "test_balanced_accuracy"], 1.0
    )
    assert majority_warning({"a": institution_round(**one_class)}) is not None


def test_what_rounded_and_missing_accuracies_are_worth() -> None:
    shares = {"test_accuracy": 0.6, "test_majority_share": 0.6}
    rounded = {"val_accuracy": 0.6, "metrics_step": 0.05, **shares}
    # Rounded to the same, one may be above the other.
    assert majority_warning({"a": institution_round(**shares)}) is not None
    assert majority_warning({"a": institution_round(**rounded)}) is None
    parts = {
        "a": institution_round(**rounded),
        "b": institution_round(**{**rounded, "metrics_step": 0.2}),
        "c": institution_round(),
    }
    assert sharing_notes(parts) == [
        "2 of 3 institutions round their accuracies, to steps of up to 0.2: their own logs have "
        "them exactly",
        "1 of 3 institutions share no validation accuracy: the means are without them",
    ]
    assert sharing_notes({"a": institution_round(val_accuracy=0.5)}) == []
