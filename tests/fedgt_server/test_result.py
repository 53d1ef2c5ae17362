"""A run's result, as the paper reports it."""

import math
from pathlib import Path

import pytest

from fedgt_server.journal import Journal
from fedgt_server.result import summarise
from shared.config import RunConfig


def test_measured_at_the_best_round(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    spent = {"epsilon_coordinate": 4.0, "epsilon_coordinate_total": 8.0, "epsilon_private": 1.0}
    for number, best in ((1, 1), (2, 2), (3, 2)):
        sent = {"weights": 8} | ({"global_nodes": number} if number > 1 else {})
        facts = {
            "bytes_up": 10,
            "bytes_down": 20,
            "uploads": sent,
            **spent,
            "epsilon_total": 100.0 * number,
        }
        journal.write(
            "round",
            round=number,
            best_round=best,
            val_accuracy=number / 10,
            test_accuracy=number / 5,
            seconds=1.5,
            similarity_spread=0.1 * number,
            institutions={
                "b": {"val_accuracy": 0.4, **facts},
                "a": {"test_accuracy": 0.5, **facts, "epsilon_private": float(number < 3)},
            },
        )
    result = summarise(journal, RunConfig.build())
    assert (result["best_round"], result["rounds"]) == (2, 3)
    assert (result["val_accuracy"], result["test_accuracy"]) == (0.2, 0.4)
    assert list(result["per_client"]) == ["a", "b"]
    assert result["per_client"]["a"] == {"val_accuracy": None, "test_accuracy": 0.5}
    assert (result["bytes_up"], result["bytes_down"], result["seconds"]) == (60, 120, 4.5)
    assert result["uploads"] == {"global_nodes": 10, "weights": 48}
    assert result["similarity_spread"] == pytest.approx([0.1, 0.2, 0.3])
    assert result["privacy"] == {
        "epsilon_coordinate": 4.0,
        "epsilon_coordinate_total": 8.0,
        "epsilon_total": 300.0,
        "private": False,
    }


def test_without_noise_and_without_measures(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    facts = {"bytes_up": 1, "bytes_down": 1}
    journal.write(
        "round",
        round=1,
        best_round=1,
        val_accuracy=math.nan,
        test_accuracy=math.nan,
        seconds=1.0,
        institutions={"a": facts},
    )
    result = summarise(journal, RunConfig.build())
    assert result["privacy"] is None
    assert result["uploads"] == {}
    assert result["test_accuracy"] is None
